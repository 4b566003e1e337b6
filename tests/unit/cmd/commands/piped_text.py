"""Texts in pipes, as a shell hands over the output of a command."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def piped(text: str) -> Generator[str]:
    """The name of a pipe that holds a text, which is short enough for one."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)

"""Exit statuses of the two programs, and the line that goes before one that is not 0."""

import codecs
import contextlib
import io
import os
import select
import sys
from collections.abc import Generator, Sequence
from typing import Any, Final, TextIO

import click

from ...topology.sets.base_errors import PinfoldError, os_reason
from ..report.escaped_text import escaped_for_encoding

FAULT: Final = 1
BAD_USAGE: Final = 2
INTERRUPTED: Final = 130
_ESCAPES: Final = "pinfold.escapes"
"""The name in `codecs` of the handler for letters that an encoding lacks."""


class OutputError(Exception):
    """Standard output or standard error cannot take what is written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(os_reason(error))


@contextlib.contextmanager
def output_errors() -> Generator[None]:
    """Errors of our own output as `OutputError`.

    click takes a pipe that breaks for itself, whatever its mode, and leaves with status 1; what is
    no `OSError` it lets through.
    """
    try:
        yield
    except OSError as error:
        # Files that were named say so themselves; what has no name is our own output.
        if error.filename is not None:
            raise
        raise OutputError(error) from error


class StatusCommand(click.Command):
    """A click command that leaves the process with what it returns (0 or 1), or 2 for errors."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of the arguments; --help and --version print and end here."""
        with output_errors():
            return super().make_context(info_name, args, parent, **extra)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and leave the process with its status."""
        output: TextIO | None = sys.stdout
        if isinstance(output, io.TextIOWrapper):
            # Names of files may be bytes that are no text, and an encoding may lack our letters.
            codecs.register_error(_ESCAPES, escaped_for_encoding)
            output.reconfigure(errors=_ESCAPES)
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            if sys.stdout is not None:
                with output_errors():
                    sys.stdout.flush()
        except PinfoldError as error:
            status = _refused(str(error))
        except click.ClickException as error:
            status = _refused(_usage_text(error))
        except OutputError as error:
            status = _output_lost(str(error))
        except (click.Abort, KeyboardInterrupt):
            status = INTERRUPTED
        sys.exit(status if type(status) is int else 0)


def _refused(message: str) -> int:
    try:
        click.echo(message, err=True)
    except OSError:
        _give_up(sys.stderr)
    return BAD_USAGE


def _output_lost(reason: str) -> int:
    # Absent where the process was started with its standard output closed.
    if sys.stdout is not None:
        is_reader_gone = _is_reader_gone(sys.stdout)
        _give_up(sys.stdout)
        # The reader (head, less) has seen enough.
        if is_reader_gone:
            return 0
    return _refused(f"standard output: {reason} — write to another place")


def _is_reader_gone(stream: TextIO) -> bool:
    """Whether a pipe or socket has no reader any more; a pipe of something else may have broken."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _give_up(stream: TextIO) -> None:
    """Send what is still to be written nowhere: closing the stream must not fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _usage_text(error: click.ClickException) -> str:
    """A usage error as `where: what — how to fix`."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    if not isinstance(context, click.Context):
        return f"pinfold: {message} — see --help"
    return f"{context.command_path}: {message} — see '{context.command_path} --help'"

"""Calls and lines of Python, counted: what a piece of work costs, however busy the machine is."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def called_modules(work: Callable[[], object]) -> list[str]:
    """The module of each function that is called while this is done, in order."""
    found: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.append(frame.f_globals.get("__name__", ""))

    before, is_collecting = sys.getprofile(), gc.isenabled()
    # A collection that comes due meanwhile calls whoever wants to know of it, hypothesis for one.
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        if is_collecting:
            gc.enable()
    return found


def count_calls(work: Callable[[], object]) -> int:
    """The number of calls while this is done."""
    return len(called_modules(work))


def count_lines(work: Callable[[], object]) -> int:
    """The number of lines that run while this is done: also those of loops that call nothing."""
    found = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal found
        found += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return found

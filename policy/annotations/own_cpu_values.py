"""The values of annotations about own cpus and idle ones, and how each is read from text."""

import enum
from typing import Final

from ...topology.model.machine import Level
from ...topology.sets.base_errors import quoted
from ...topology.sets.cpuset import MAX_IDS
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError
from .annotation_values import parse_bool

AS_REQUESTED: Final = -1
"""In place of a number of cpus: as many as it requests, rounded up."""
_REQUEST: Final = "request"
_WHOLE_CORES: Final = "whole-cores"
_IDLE_LEVELS: Final = {level.value: level for level in (Level.L3, Level.NUMA, Level.SOCKET)}


class HiddenThreads(enum.Enum):
    """The threads that a container leaves idle of the cores it has."""

    NONE = "none"
    OWN = "own"
    """All but one of those it has of each core."""
    WHOLE_CORES = "whole-cores"
    """All but one of each core, and it has whole cores."""


def parse_exclusive(text: str) -> int:
    """The number of cpus that a container wants for itself, or `AS_REQUESTED`.

    >>> parse_exclusive("6"), parse_exclusive("request")
    (6, -1)
    """
    word = text.strip()
    if word.lower() == _REQUEST:
        return AS_REQUESTED
    if not (word.isascii() and word.isdigit()) or not 0 < int(word[:9]) <= MAX_IDS:
        what = f"{quoted(text)} is no number of cpus"
        raise TextError(what, f"write 'request' or a whole number from 1 to {MAX_IDS}")
    return int(word[:9])


def parse_hidden_threads(text: str) -> HiddenThreads:
    """The threads to leave idle: a boolean, or `whole-cores`."""
    if is_whole_cores(text):
        return HiddenThreads.WHOLE_CORES
    try:
        return HiddenThreads.OWN if parse_bool(text) else HiddenThreads.NONE
    except TextError as error:
        raise TextError(error.what, "write 'true', 'false' or 'whole-cores'") from error


def is_whole_cores(text: str) -> bool:
    """Whether a container wants whole cores, by the text about the threads it leaves idle."""
    return text.strip().lower() == _WHOLE_CORES


def parse_idle_level(text: str) -> Level:
    """The level of the domains of which a container may use idle cpus.

    >>> parse_idle_level("numa")
    <Level.NUMA: 'numa'>
    """
    word = text.strip().lower()
    if word not in _IDLE_LEVELS:
        what = f"{quoted(text.strip())} is no level of idle cpus"
        raise TextError(what, suggestion(word, list(_IDLE_LEVELS)))
    return _IDLE_LEVELS[word]

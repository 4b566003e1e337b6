"""Names of the machine's levels, as rules and configurations write them."""

from typing import Final

from ...topology.model.machine import Level
from ...topology.sets.base_errors import quoted
from ..text.suggestion import suggestion

LEVEL_DOMAIN: Final = "topology.pinfold.dev"
RULE_LEVELS: Final = tuple(level for level in Level if level is not Level.SYSTEM)
"""Levels that a rule can be about: on the whole machine all containers are together anyway."""

_NOUNS: Final = {level: level.value for level in Level} | {
    Level.SYSTEM: "machine",
    Level.NUMA: "NUMA node",
    Level.L3: "L3 group",
}
_BY_NAME: Final = {level.value: level for level in RULE_LEVELS}
_MEANT: Final = {
    "node": "numa",
    "numa-node": "numa",
    "numanode": "numa",
    "package": "socket",
    "zone": "socket",
    "host": "numa",
    "l2": "cluster",
    "l2cache": "cluster",
    "l3cache": "l3",
    "cache": "l3",
}


def level_noun(level: Level) -> str:
    """A domain of a level, for people.

    >>> level_noun(Level.NUMA), level_noun(Level.CORE)
    ('NUMA node', 'core')
    """
    return _NOUNS[level]


def a_level(level: Level) -> str:
    """Noun of a level's domains with its article, for people.

    >>> a_level(Level.L3), a_level(Level.SOCKET)
    ('an L3 group', 'a socket')
    """
    return f"{'an' if level is Level.L3 else 'a'} {level_noun(level)}"


def parse_level(text: str) -> Level:
    """The level that a topology key names: "numa", or "topology.pinfold.dev/numa".

    Raises `ValueError` with two arguments: what is wrong, and how to fix it.

    >>> parse_level("topology.pinfold.dev/l3")
    <Level.L3: 'l3'>
    """
    found = _BY_NAME.get(text.removeprefix(f"{LEVEL_DOMAIN}/"))
    if found is not None:
        return found
    names = ", ".join(_BY_NAME)
    if not text:
        raise ValueError("an empty topologyKey", f"one of {names}")
    if text.startswith(("kubernetes.io/", "topology.kubernetes.io/")) or text == Level.SYSTEM.value:
        raise ValueError(f"{quoted(text)} is no level inside a node", f"one of {names}")
    name = text.removeprefix(f"{LEVEL_DOMAIN}/").lower()
    meant = name if name in _BY_NAME else _MEANT.get(name)
    fix = f"did you mean {meant!r}?" if meant else suggestion(name, _BY_NAME)
    raise ValueError(f"unknown topologyKey {quoted(text)}", fix)

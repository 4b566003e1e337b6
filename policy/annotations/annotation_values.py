"""The values of annotations: their types, and how each is read from text.

Every reader raises `TextError` and nothing else.
"""

import enum
import re
from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Struct

from ...topology.model.machine import Level, MemoryKind
from ...topology.sets.base_errors import quoted
from ...topology.sets.cpuset import MAX_IDS
from ..model.cpu_preference import BurstLevel, CpuPriority, MovePreference, QuotaUse, SmtPreference
from ..text.errors import ConfigError
from ..text.glob import GlobError, compile_glob
from ..text.quantity import parse_nanoseconds
from ..text.suggestion import suggestion
from ..text.yaml_nodes import TextError, TextMap, TextScalar, scalars_of
from ..text.yaml_text import parse_text

# As Go's strconv.ParseBool.
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
COLD_START_MAX_NS: Final = 3600 * 10**9
_MIXED: Final = "mixed"
_REQUEST: Final = "request"
_WHOLE_CORES: Final = "whole-cores"
_PCI_ADDRESS: Final = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


class HintSource(enum.Enum):
    """Sources of a container's topology hints."""

    MOUNTS = "mounts"
    DEVICES = "devices"
    POD_RESOURCES = "pod-resources"


ALL_HINTS: Final = frozenset(HintSource)


class IrqMode(enum.Enum):
    """The winner where one container masks an interrupt that another one claims."""

    MASK_FIRST = "mask-first"
    CLAIM_FIRST = "claim-first"


class IrqAffinity(Struct, frozen=True, kw_only=True):
    """Interrupts to get on the exclusive cpus and to keep away from them.

    A pattern is the number of an interrupt, or a glob over its description. Of the interrupts of
    the container's own devices those are claimed that match one of `devices`.
    """

    claim: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    mode: IrqMode = IrqMode.MASK_FIRST


class PathFilter(Struct, frozen=True):
    """A filter of paths: beginnings of paths, or globs over whole paths."""

    paths: tuple[str, ...]
    is_glob: bool = False

    def matches(self, path: str) -> bool:
        """Whether a path is one of them."""
        if self.is_glob:
            return any(compile_glob(pattern).matches(path) for pattern in self.paths)
        return path.startswith(self.paths)


def steps_per_character(pattern: str) -> int:
    """Steps to hold one character against a glob, whose every class may be tried."""
    return 1 + pattern.count("[")


def parse_bool(text: str) -> bool:
    """The truth of a text, as Go's strconv.ParseBool reads it."""
    value = _BOOLEANS.get(text.strip())
    if value is None:
        raise TextError(f"{quoted(text)} is not a boolean", "write 'true' or 'false'")
    return value


def parse_preserve(text: str) -> bool:
    """True for exactly `true`; `false` says what is so anyway."""
    if text not in ("true", "false"):
        raise TextError(f"{quoted(text)} does not preserve anything", "write 'true'")
    return text == "true"


def parse_word(text: str) -> str:
    """The name of a class."""
    return _name(text, "a class")


def parse_group(text: str) -> str:
    """The name of a group of containers."""
    return _name(text, "a group")


def parse_cpu_priority(text: str) -> CpuPriority | None:
    """The priority; None for `default`, which leaves it to the configuration."""
    if text.strip().lower() == "default":
        return None
    return _member(CpuPriority, text, "cpu priority", "default")


def parse_burst_level(text: str) -> BurstLevel:
    """The level of a container without cpu limit."""
    if text.strip().lower() == "socket":
        raise TextError("unknown level 'socket'", "did you mean 'package'?")
    return _member(BurstLevel, text, "level")


def parse_smt(text: str) -> SmtPreference:
    """The use of the threads of cores. Raises `TextError` for an unknown word."""
    return _member(SmtPreference, text, "use of threads")


def parse_move(text: str) -> MovePreference:
    """The wish about moves of a running container. Raises `TextError` for an unknown word."""
    return _member(MovePreference, text, "wish about moves")


def parse_memory_types(text: str) -> frozenset[MemoryKind]:
    """The kinds in a comma-separated list; `mixed` means all."""
    kinds: set[MemoryKind] = set()
    for item in text.split(","):
        if item.strip().lower() == _MIXED:
            kinds |= frozenset(MemoryKind)
        else:
            kinds.add(_member(MemoryKind, item, "memory type", _MIXED))
    return frozenset(kinds)


def parse_cold_start(text: str) -> int:
    """The duration of `duration: 10s` in nanoseconds."""
    node = _mapping(text, ("duration",))
    written = node.find("duration")
    if not isinstance(written, TextScalar):
        raise TextError.at(written or node, "no duration", "write 'duration: 10s'")
    try:
        nanoseconds = parse_nanoseconds(written.value)
    except ConfigError as error:
        what = f"{quoted(written.value)} is not a duration"
        raise TextError.at(written, what, "write 'duration: 10s'") from error
    if nanoseconds > COLD_START_MAX_NS:
        what = f"the duration {quoted(written.value)} is outside the range"
        raise TextError.at(written, what, "write at most 1h")
    return nanoseconds


def parse_irq_affinity(text: str) -> IrqAffinity:
    """The interrupts of `claim: [..]`, `mask: [..]`, `devices: [..]` and `mode: ..`."""
    what = f"invalid IRQ affinity {quoted(text)}"
    try:
        node = _mapping(text, ("claim", "mask", "devices", "mode"))
        claim, mask = _patterns(node, "claim"), _patterns(node, "mask")
        # Operators look for these words: they are those of the Go policy.
        what = "invalid IRQ affinity devices pattern"
        devices = _patterns(node, "devices")
    except TextError as error:
        what = f"{what}: {error.what}"
        raise TextError(what, error.fix, line=error.line, column=error.column) from error
    mode = node.find("mode")
    if mode is None:
        return IrqAffinity(claim=claim, mask=mask, devices=devices)
    modes = {member.value: member for member in IrqMode}
    written = mode.value if isinstance(mode, TextScalar) else ""
    if written not in modes:
        what = f"invalid IRQ affinity mode {quoted(written)} (valid modes: {', '.join(modes)})"
        raise TextError.at(mode, what)
    return IrqAffinity(claim=claim, mask=mask, devices=devices, mode=modes[written])


def parse_path_filter(text: str) -> PathFilter:
    """The paths of `type: prefix` or `type: glob`, and `paths: [..]`."""
    node = _mapping(text, ("type", "paths"))
    kind = node.find("type")
    written = kind.value if isinstance(kind, TextScalar) else ""
    if written not in ("prefix", "glob"):
        fix = "write 'type: prefix' or 'type: glob'"
        raise TextError.at(kind or node, f"unknown type {quoted(written)}", fix)
    if written == "glob":
        return PathFilter(_patterns(node, "paths"), is_glob=True)
    paths = node.find("paths")
    return PathFilter(tuple(item.value for item in scalars_of(paths, "'paths'")) if paths else ())


def parse_hint_sources(text: str) -> tuple[frozenset[HintSource], tuple[str, ...]]:
    """The sources in a boolean or a comma-separated list, and the items that are none."""
    if text.strip() in _BOOLEANS:
        return (ALL_HINTS if parse_bool(text) else frozenset()), ()
    words: Mapping[str, frozenset[HintSource]] = {
        "all": ALL_HINTS,
        "none": frozenset(),
        **{source.value: frozenset({source}) for source in HintSource},
    }
    items = [item.strip().lower() for item in text.split(",")]
    known = [words[item] for item in items if item in words]
    unknown = tuple(dict.fromkeys(item for item in items if item not in words))
    return frozenset[HintSource]().union(*known), unknown


E = TypeVar("E", bound=enum.Enum)


def _name(text: str, what: str) -> str:
    if not text.strip():
        raise TextError("no name", f"write the name of {what}")
    return text.strip()


def _member(kind: type[E], text: str, what: str, *others: str) -> E:
    members = {str(member.value): member for member in kind}
    member = members.get(text.strip().lower())
    if member is None:
        fix = suggestion(text.strip(), (*members, *others))
        raise TextError(f"unknown {what} {quoted(text.strip())}", fix)
    return member


def _mapping(text: str, fields: tuple[str, ...]) -> TextMap:
    node = parse_text(text)
    if not isinstance(node, TextMap):
        what, fix = "not a mapping", f"write '{fields[0]}: ...'"
        raise TextError.at(node, what, fix) if node else TextError(what, fix)
    for name, _ in node.entries:
        if name.value not in fields:
            what = f"unknown field {quoted(name.value)}"
            raise TextError.at(name, what, suggestion(name.value, fields))
    return node


def _patterns(node: TextMap, field: str) -> tuple[str, ...]:
    written = node.find(field)
    if written is None:
        return ()
    items = scalars_of(written, f"'{field}'")
    for item in items:
        try:
            compile_glob(item.value)
        except GlobError as error:
            what = f"malformed pattern {quoted(item.value)}: {error}"
            raise TextError.at(item, what, error.fix) from error
    return tuple(item.value for item in items)


AS_REQUESTED: Final = -1
"""In place of a number of cpus: as many as it requests, rounded up."""
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


class MemoryUse(enum.Enum):
    """The way in which a container's memory lies on its memory nodes."""

    INTERLEAVE = "interleave"
    """Page by page on all nodes in turn, for the bandwidth of all of them."""


def parse_device(text: str) -> str:
    """A device by a path below /dev or /sys or a PCI address, or a resource of the kubelet.

    >>> parse_device("/dev/nvme0n1"), parse_device("nvidia.com/gpu")
    ('/dev/nvme0n1', 'nvidia.com/gpu')
    """
    word = text.strip()
    is_path = word.startswith(("/dev/", "/sys/")) and "/.." not in word
    if is_path or _PCI_ADDRESS.fullmatch(word) or _RESOURCE.fullmatch(word):
        return word
    what = f"{quoted(word)} is neither a device nor a resource"
    fix = "write '/dev/NAME', '/sys/..', an address such as '0000:3b:00.0', or 'vendor.com/device'"
    raise TextError(what, fix)


def is_resource(device: str) -> bool:
    """Whether a device is named by a resource of the kubelet."""
    return not device.startswith("/") and "/" in device


def parse_quota_use(text: str) -> QuotaUse:
    """The fate of the quota of a container that has its cpus for itself."""
    return _member(QuotaUse, text, "use of the quota")


def parse_memory_use(text: str) -> MemoryUse:
    """The way of lying on memory nodes."""
    if text.strip().lower() != MemoryUse.INTERLEAVE.value:
        raise TextError(f"unknown use of memory {quoted(text.strip())}", "write 'interleave'")
    return MemoryUse.INTERLEAVE

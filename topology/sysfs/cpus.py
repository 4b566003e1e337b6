"""Online cpus, and the sockets, dies, clusters and cores that group them.

One cpu of a group speaks for all its members: the others' files hold the same text. Groups come
from sibling files alone; ids are labels, because core_id repeats between sockets and
physical_package_id can be -1, repeated or missing (ppc, s390, riscv, virtual machines).
Only where a copy lost all sibling files do ids have to tell groups apart.
Source: Documentation/admin-guide/cputopology.rst.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from ..model.machine import Domain
from ..sets.cpuset import CpuSet
from .attributes import Attributes

CPU: Final = "sys/devices/system/cpu"

_SOCKET_FILES: Final = (
    "package_cpus_list",
    "core_siblings_list",
    "package_cpus",
    "core_siblings",
)
_CORE_FILES: Final = ("core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings")
_DIE_FILES: Final = ("die_cpus_list", "die_cpus")
_CLUSTER_FILES: Final = ("cluster_cpus_list", "cluster_cpus")
_NO_ID: Final = 65535
"""The kernel's 16-bit "unknown" (BAD_APICID on x86); -1 and -2 elsewhere."""


_Key = TypeVar("_Key")


class _Group(NamedTuple):
    """Cpus that belong together, and the one whose files say so."""

    speaker: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSets:
    """The machine-wide sets of cpus."""

    online: CpuSet
    present: CpuSet
    possible: CpuSet
    isolated: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The groups of the online cpus, by lowest cpu, and the ids that name them."""

    sockets: tuple[Domain, ...]
    dies: tuple[Domain, ...]
    clusters: tuple[Domain, ...]
    cores: tuple[CpuSet, ...]
    socket_of: Mapping[int, int]
    die_of: Mapping[int, int]
    cluster_of: Mapping[int, int]
    core_of: Mapping[int, int]


def read_cpu_sets(attributes: Attributes) -> CpuSets:
    """The online, present, possible and isolated cpus.

    Where there is no `online` file: cpus whose own `online` is not 0 and that have a topology.
    """
    there = attributes.numbered(CPU, "cpu")
    online = attributes.cpus(f"{CPU}/online")
    if not online:
        attributes.warn(f"{CPU}/online", "missing or empty: online cpus told by their folders")
        listed = [cpu for cpu in there if attributes.text(f"{CPU}/cpu{cpu}/online") != "0"]
        # Offline cpus keep a folder without topology/ — but some kernels have none for any cpu.
        known = [cpu for cpu in listed if attributes.tree.names(f"{CPU}/cpu{cpu}/topology")]
        online = CpuSet.collect(known or listed)
    present = (attributes.cpus(f"{CPU}/present") or CpuSet.collect(there)) | online
    possible = (attributes.cpus(f"{CPU}/possible") or present) | present
    isolated = attributes.cpus(f"{CPU}/isolated") or CpuSet()
    return CpuSets(online=online, present=present, possible=possible, isolated=isolated & online)


def read_layout(attributes: Attributes, online: CpuSet) -> Layout:
    """The sockets, dies, clusters and cores of the online cpus."""
    sockets, socket_of = _read_sockets(attributes, online)
    dies, die_of = _read_dies(attributes, sockets)
    groups, unknown = _partition(attributes, online, _CORE_FILES)
    clusters, cluster_of = _read_clusters(attributes, online, groups, socket_of, die_of)
    if unknown:
        by_id, alone = _cores_by_id(attributes, unknown, socket_of, die_of)
        for cpus, how in ((unknown - alone, "grouped by core_id"), (alone, "one thread per core")):
            if cpus:
                attributes.warn(f"{CPU}/cpu*/topology", f"no thread siblings of cpus {cpus}: {how}")
        groups = _sorted([*groups, *by_id, *(_Group(cpu, CpuSet.of(cpu)) for cpu in alone)])
    core_of: dict[int, int] = {}
    for position, core in enumerate(groups):
        label = attributes.number(f"{_topology(core.speaker)}/core_id")
        # rv64 kernels say -1 for all; the position is as good a label.
        core_of.update(dict.fromkeys(core.cpus, position if label is None or label < 0 else label))
    return Layout(
        sockets=sockets,
        dies=dies,
        clusters=clusters,
        cores=tuple(core.cpus for core in groups),
        socket_of=socket_of,
        die_of=die_of,
        cluster_of=cluster_of,
        core_of=core_of,
    )


def _topology(cpu: int) -> str:
    return f"{CPU}/cpu{cpu}/topology"


def _partition(
    attributes: Attributes,
    cpus: CpuSet,
    names: tuple[str, ...],
    is_known: Callable[[int], bool] = lambda _: True,
) -> tuple[list[_Group], CpuSet]:
    """Disjoint groups by sibling files, sorted by lowest cpu, and the cpus that are in none."""
    rest = cpus.mask
    groups: list[_Group] = []
    unknown = 0
    while rest:
        low = rest & -rest
        cpu = low.bit_length() - 1
        found = attributes.first_cpus(_topology(cpu), names) if is_known(cpu) else None
        if found is None:
            unknown |= low
            rest ^= low
            continue
        # Siblings may be offline, and damaged files may name another group's cpus; a cpu that
        # lost its own files is in the group that names it.
        group = found.mask & (rest | unknown) | low
        groups.append(_Group(cpu, found if group == found.mask else CpuSet(group)))
        rest &= ~group
        unknown &= ~group
    return _sorted(groups), CpuSet(unknown)


def _sorted(groups: list[_Group]) -> list[_Group]:
    return sorted(groups, key=lambda group: group.cpus.lowest)


def _by_key(cpus: CpuSet, key_of: Callable[[int], _Key]) -> Mapping[_Key, _Group]:
    """The cpus that have the same key, by that key."""
    masks: dict[_Key, int] = {}
    for cpu in cpus:
        key = key_of(cpu)
        masks[key] = masks.get(key, 0) | 1 << cpu
    return {key: _Group(CpuSet(mask).lowest, CpuSet(mask)) for key, mask in masks.items()}


def _cores_by_id(
    attributes: Attributes,
    cpus: CpuSet,
    socket_of: Mapping[int, int],
    die_of: Mapping[int, int],
) -> tuple[list[_Group], CpuSet]:
    """Cores told by core_id in their die, and the cpus without a usable one."""

    def key_of(cpu: int) -> tuple[int, int, int] | None:
        core = attributes.number(f"{_topology(cpu)}/core_id")
        if core is None or core < 0 or core == _NO_ID:
            return None
        return socket_of[cpu], die_of[cpu], core

    found = _by_key(cpus, key_of)
    cores = [group for key, group in found.items() if key is not None]
    return cores, found[None].cpus if None in found else CpuSet()


def _usable(ids: list[int | None]) -> list[int] | None:
    """The ids when every group has its own; None when they cannot tell groups apart."""
    usable = [one for one in ids if one is not None and one >= 0]
    return usable if len(usable) == len(ids) == len(set(usable)) else None


def _read_sockets(
    attributes: Attributes, online: CpuSet
) -> tuple[tuple[Domain, ...], Mapping[int, int]]:
    groups, unknown = _partition(attributes, online, _SOCKET_FILES)
    if unknown:

        def id_of(cpu: int) -> int:
            socket = attributes.number(f"{_topology(cpu)}/physical_package_id")
            return -1 if socket is None else socket

        by_id = _by_key(unknown, id_of)
        attributes.warn(
            f"{CPU}/cpu*/topology", f"no socket siblings of cpus {unknown}: grouped by id"
        )
        groups = _sorted([*groups, *by_id.values()])
    read = [attributes.number(f"{_topology(one.speaker)}/physical_package_id") for one in groups]
    ids = _usable(read)
    if ids is None:
        attributes.warn(
            f"{CPU}/cpu*/topology/physical_package_id",
            "missing, negative or repeated: sockets are numbered by their lowest cpu",
        )
        ids = list(range(len(groups)))
    named = list(zip(ids, groups, strict=True))
    domains = tuple(Domain(label=str(one), cpus=group.cpus) for one, group in named)
    return domains, {cpu: one for one, group in named for cpu in group.cpus}


def _read_dies(
    attributes: Attributes, sockets: tuple[Domain, ...]
) -> tuple[tuple[Domain, ...], Mapping[int, int]]:
    dies: list[Domain] = []
    die_of: dict[int, int] = {}
    without: list[str] = []

    def id_of(cpu: int) -> int | None:
        die = attributes.number(f"{_topology(cpu)}/die_id")
        return die if die is not None and 0 <= die < _NO_ID else None

    def is_known(cpu: int) -> bool:
        # arm64 and riscv list each cpu as a die of its own where there is no die_id.
        return id_of(cpu) is not None

    for socket in sockets:
        groups, unknown = _partition(attributes, socket.cpus, _DIE_FILES, is_known)
        if unknown:
            if attributes.text(f"{_topology(unknown.lowest)}/die_id") is None:
                without.append(socket.label)
            groups = _sorted([*groups, *_by_key(unknown, id_of).values()])
        ids = _usable([id_of(one.speaker) for one in groups])
        for one, (_, cpus) in zip(ids or range(len(groups)), groups, strict=True):
            dies.append(Domain(label=f"{socket.label}/{one}", cpus=cpus))
            die_of.update(dict.fromkeys(cpus, one))
    if without:
        attributes.warn(
            f"{CPU}/cpu*/topology/die_id",
            "missing: one die per socket assumed"
            if len(without) == len(sockets)
            else f"missing in socket {', '.join(without)}: one die assumed",
        )
    return tuple(sorted(dies, key=lambda die: die.cpus.lowest)), die_of


def _read_clusters(
    attributes: Attributes,
    online: CpuSet,
    cores: list[_Group],
    socket_of: Mapping[int, int],
    die_of: Mapping[int, int],
) -> tuple[tuple[Domain, ...], Mapping[int, int]]:
    ids: dict[int, int] = {}
    siblings = {core.speaker: core.cpus.mask for core in cores}
    without = 0

    def is_known(cpu: int) -> bool:
        nonlocal without
        if without >> cpu & 1:
            return False
        cluster = attributes.number(f"{_topology(cpu)}/cluster_id")
        if cluster is None:
            return False
        if not 0 <= cluster < 2**31 or cluster == _NO_ID:
            without |= siblings.get(cpu, 0)
            return False
        ids[cpu] = cluster
        return True

    groups, unknown = _partition(attributes, online, _CLUSTER_FILES, is_known)
    # A kernel that writes -1 says "no cluster"; one without the file (before 5.16) says nothing.
    if unknown and attributes.text(f"{_topology(unknown.lowest)}/cluster_id") is None:
        attributes.warn(f"{CPU}/cpu*/topology/cluster_id", "missing: clusters are not known")
    cluster_of: dict[int, int] = {}
    domains: list[Domain] = []
    names: set[tuple[int, int, int]] = set()
    for cpu, cpus in groups:
        cluster = ids[cpu]
        while (socket_of[cpu], die_of[cpu], cluster) in names:
            cluster += 1
        names.add((socket_of[cpu], die_of[cpu], cluster))
        cluster_of.update(dict.fromkeys(cpus, cluster))
        domains.append(Domain(label=f"{socket_of[cpu]}/{die_of[cpu]}/{cluster}", cpus=cpus))
    return tuple(domains), cluster_of

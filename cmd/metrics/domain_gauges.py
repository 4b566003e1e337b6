"""Gauges of domains: their cpus, those that containers have for themselves, and their memory."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ...policy.engine.gauges.gauge import Gauge, Labels
from ...policy.engine.snapshot import Snapshot
from ...policy.pools.pool_tree import PoolTree
from ...topology.sets.cpuset import CpuSet, NodeSet
from .domain_levels import domains_of


class DomainGauges:
    """The families of domains, of one snapshot after the other. For one thread.

    A large machine has hundreds of domains: their names and labels are made once, and they are
    gauges, which have them apart from their values.
    """

    def __init__(self) -> None:
        self._tree: PoolTree | None = None
        self._domains: _MachineDomains | None = None

    def families(self, snapshot: Snapshot) -> Iterator[Gauge]:
        """Every family. O(domains + containers + zones of memory)."""
        known, exclusive = self._domains, 0
        if known is None or snapshot.tree is not self._tree:
            known = self._domains = _MachineDomains.of(snapshot)
            self._tree = snapshot.tree
        for grant in snapshot.grants.values():
            exclusive |= grant.exclusive.mask
        yield known.cpu_family
        yield _family(
            "pinfold_domain_cpus_exclusive",
            "CPUs of a domain that containers have for themselves.",
            known.labels,
            [(one & exclusive).bit_count() for one in known.cpus],
        )
        yield known.memory_family
        left = [snapshot.memory.available(one) for one in known.nodes]
        told = [one for one in left if one is not None]
        pairs = zip(known.node_labels, left, strict=True)
        yield _family(
            "pinfold_domain_memory_available_bytes",
            "Memory of a domain that can still be promised.",
            # The same object as before where all is known.
            known.node_labels
            if len(told) == len(left)
            else [one for one, size in pairs if size is not None],
            told,
        )
        free = snapshot.free_sharable[snapshot.tree.root.id]
        yield _family(
            "pinfold_fragmentation_ratio",
            "Share of the free CPUs that are in domains of which other CPUs are taken.",
            known.level_labels,
            [
                fragmentation(free, domains, snapshot.supply.sharable.mask)
                for domains in known.domains.values()
            ],
        )


def fragmentation(free: int, domains: Mapping[str, CpuSet], usable: int) -> float:
    """The share of free cpus that are in domains of which others are taken; masks of cpus.

    >>> pair = {"0": CpuSet.parse("0-1"), "1": CpuSet.parse("2-3")}
    >>> fragmentation(0b1101, pair, 0b1111)
    0.3333333333333333
    """
    taken, whole = usable & ~free, 0
    for cpus in domains.values():
        if not cpus.mask & taken:
            whole |= cpus.mask & usable
    return (free & ~whole).bit_count() / free.bit_count() if free else 0.0


class _MachineDomains(Struct, frozen=True):
    """Domains of a machine and its pool tree, as far as they stay the same."""

    labels: Labels
    cpus: Sequence[int]
    """Masks of the cpus that containers may use, in the order of the labels."""
    domains: Mapping[str, Mapping[str, CpuSet]]
    """By level and label, the levels in alphabetical order."""
    node_labels: Labels
    nodes: Sequence[NodeSet]
    """Each memory node alone, in the order of their labels."""
    level_labels: Labels
    """In the order of the domains."""
    cpu_family: Gauge
    memory_family: Gauge

    @classmethod
    def of(cls, snapshot: Snapshot) -> "_MachineDomains":
        root = snapshot.tree.root
        usable = (root.isolated | root.reserved | root.sharable).mask
        domains = domains_of(snapshot.machine)
        found = sorted(
            (level, label, one.mask & usable)
            for level, group in domains.items()
            for label, one in group.items()
        )
        nodes = sorted(
            (str(one.id), NodeSet.of(one.id), one.memory_bytes)
            for one in snapshot.machine.numa_nodes
            if one.memory_bytes
        )
        labels: Labels = [{"level": level, "domain": label} for level, label, _ in found]
        node_labels: Labels = [{"level": "numa", "domain": label} for label, _, _ in nodes]
        return cls(
            labels=labels,
            cpus=[mask for _, _, mask in found],
            domains=dict(sorted(domains.items())),
            level_labels=[{"level": level} for level in sorted(domains)],
            node_labels=node_labels,
            nodes=[one for _, one, _ in nodes],
            cpu_family=_family(
                "pinfold_domain_cpus",
                "CPUs of a domain that containers may use.",
                labels,
                [mask.bit_count() for _, _, mask in found],
            ),
            memory_family=_family(
                "pinfold_domain_memory_bytes",
                "Memory of a domain.",
                node_labels,
                [size for _, _, size in nodes],
            ),
        )


def _family(name: str, text: str, labels: Labels, values: Sequence[float]) -> Gauge:
    return Gauge(name=name, unit="", help=text, group="", labels=labels, values=values)

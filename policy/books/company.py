"""Company: the cpus of those with whom a container must be, and nothing else of its rules."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from ...topology.model.machine import Level
from ...topology.sets.cpuset import CpuSet
from ..configuration.affinity_fields import KubeCompat
from ..model.container import Container
from ..pools.domains import Domains
from ..rules.podaffinity.rule_set import PlacementRules, RequiredTerm
from ..rules.podaffinity.term_selection import select_term
from .books import Books
from .whereabouts import Whereabouts


class Company(NamedTuple):
    """Cpus of containers that a newcomer must share domains of a level with, as masks."""

    level: Level
    own: int
    """Cpus that one of them has for itself."""
    shared: int
    """Cpus that they lose when another container takes them."""

    def beside(self, domains: Domains, cpus: int, exclusive: int) -> list[int]:
        """The shared cpus without which one on these cpus would be alone, by domain."""
        level, shared = self.level, self.shared
        alone = domains.indexes(level, shared) & ~domains.indexes(level, self.own)
        here = domains.members(level, alone & domains.indexes(level, cpus))
        return domains.parts(level, shared & here & ~exclusive)


def affinity_of(
    container: Container, rules: PlacementRules, books: Books
) -> list[tuple[RequiredTerm, int]]:
    """The required affinity of a container, each rule with the residents that it is about."""
    residents = books.affinity.residents
    wanted = [one for one in rules.required if not one.is_anti]
    places = [select_term(residents, container, one.term) for one in wanted]
    if wanted and books.config.kube_compat is KubeCompat.STRICT:
        # Kubernetes' code counts a pod only if it matches all terms.
        places = [reduce(int.__and__, places)] * len(wanted)
    return list(zip(wanted, places, strict=True))


def wanted_company(
    container: Container, rules: PlacementRules, books: Books, whereabouts: Whereabouts
) -> Sequence[Company]:
    """The company of a container: those outside its pen whom its required affinity is about."""
    mates, found = whereabouts.mates, dict[tuple[Level, int], Company]()
    for rule, places in affinity_of(container, rules, books):
        level = rule.term.level
        if not places or places & mates or (level, places) in found:
            continue
        own = whereabouts.exclusive(places)
        found[level, places] = Company(level, own, whereabouts.cpus(places) & ~own)
    return tuple(found.values())


def beside(
    some: Sequence[Company], domains: Domains, cpus: int, exclusive: int
) -> tuple[CpuSet, ...]:
    """The shared cpus of all of it without which one on these cpus would be alone, by domain."""
    found = [part for one in some for part in one.beside(domains, cpus, exclusive)]
    # Masks of single cores have the same few hashes, and the parts of one differ anyway.
    return tuple(map(CpuSet, dict.fromkeys(found) if len(some) > 1 else found))

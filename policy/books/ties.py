"""Ties of residents: required rules, their own or others', that hold them to their cpus."""

from collections import Counter
from collections.abc import Collection, Iterable

from ...topology.model.machine import Level
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..pools.domains import Domains
from ..rules.podaffinity.rule_set import PlacementRules, RequiredTerm
from ..rules.podaffinity.standing_rules import StandingRule, StandingRules
from ..rules.podaffinity.term import container_labels


def is_tied(container: Container, grant: Grant, standing: StandingRules) -> bool:
    """Whether another place of a resident might break a rule among these."""
    if not standing.rules:
        return False
    if grant.within is not None or is_held(standing.of(container.id)):
        return True
    return any(isinstance(one.rule, RequiredTerm) for one in standing.matching(container))


def followers_of(
    matching: Iterable[StandingRule], standing: StandingRules
) -> Collection[ContainerId]:
    """The residents that must be with a newcomer, and in no pool, nor with anybody else.

    `matching`: the rules that are about it.
    """
    counts: Counter[ContainerId] = Counter()
    for one in matching:
        if isinstance(one.rule, RequiredTerm) and not one.rule.is_anti:
            counts.update(one.owners.keys())
    found: list[ContainerId] = []
    for owner_id, count in counts.items():
        rules = standing.of(owner_id)
        is_in_pool = rules.pool_required or rules.pool_name is not None
        if not is_in_pool and sum([not one.is_anti for one in rules.required]) == count:
            found.append(owner_id)
    return found


def is_held(rules: PlacementRules) -> bool:
    """Whether a container has rules that must hold where it is."""
    return bool(rules.required or rules.spread_levels) or rules.tie_it


def needs_all(rules: PlacementRules, cpus: int, domains: Domains, *, is_twin: bool = False) -> bool:
    """Whether a container is to keep all of the cpus on which it is, a mask, for its own rules.

    `is_twin`: it is held against one under the same rules. For others who must be in a pool, or
    with somebody, does not make way.
    """
    if rules.tie_it and not is_twin:
        return True
    return spans(cpus, (*rules.near_levels, *rules.spread_levels), domains)


def is_needed_whole(
    container: Container,
    cpus: int,
    standing: StandingRules,
    domains: Domains,
    but: ContainerId | None = None,
) -> bool:
    """Whether others must be with a container in a domain, and it is in several, on these cpus.

    `but`: see `RequiredResidents`.
    """
    labels = container_labels(container)
    in_several: dict[Level, bool] = {}
    # They may be many, of few levels, and the first one decides.
    for one in standing.requiring([container]):
        term = one.rule.term
        if term.level not in in_several:
            in_several[term.level] = spans(cpus, (term.level,), domains)
        if in_several[term.level]:
            owner = next((own for owner_id, own in one.owners.items() if owner_id != but), None)
            if owner is not None and term.includes(owner, container, labels):
                return True
    return False


def spans(cpus: int, levels: Iterable[Level], domains: Domains) -> bool:
    """Whether cpus, a mask, are in several domains of a level.

    Who is in one is with the same others, and is counted, on whichever of its cpus.
    """
    lowest = cpus & -cpus
    return bool(cpus) and any([cpus & ~domains.covering(level, lowest) for level in levels])

"""Ties of residents: required rules, their own or others', that hold them to their cpus."""

from ..model.container import Container
from ..model.grant import Grant
from ..rules.podaffinity.rule_set import PlacementRules, RequiredTerm
from ..rules.podaffinity.standing_rules import StandingRules


def is_tied(container: Container, grant: Grant, standing: StandingRules) -> bool:
    """Whether another place of a resident might break a rule among these."""
    if standing.is_empty:
        return False
    if grant.within is not None or is_held(standing.of(container.id)):
        return True
    return any(isinstance(one.rule, RequiredTerm) for one in standing.matching(container))


def is_held(rules: PlacementRules, *, but_apart: bool = False) -> bool:
    """Whether a container has rules that must hold where it is.

    `but_apart`: rules beside anti-affinity, which goes on holding on fewer cpus.
    """
    if rules.pool_required or rules.pool_name is not None:
        return True
    if any([not (but_apart and one.is_anti) for one in rules.required]):
        return True
    return any([one.is_required for one in rules.spread])

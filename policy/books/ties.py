"""Ties of residents: required rules, their own or others', that hold them to their cpus."""

from ..model.container import Container
from ..model.grant import Grant
from ..rules.podaffinity.rule_set import PlacementRules, RequiredTerm
from ..rules.podaffinity.standing_rules import StandingRules


def is_tied(container: Container, grant: Grant, standing: StandingRules) -> bool:
    """Whether another place of a resident might break a rule among these."""
    if not standing.rules:
        return False
    if grant.within is not None or is_held(standing.of(container.id)):
        return True
    return any(isinstance(one.rule, RequiredTerm) for one in standing.matching(container))


def is_held(rules: PlacementRules) -> bool:
    """Whether a container has rules that must hold where it is."""
    return bool(rules.required) or rules.hold_it

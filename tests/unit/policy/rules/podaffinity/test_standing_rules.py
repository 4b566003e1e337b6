"""Rules of containers that are there, looked up again and again while none come or go."""

from pinfold.policy.model.container import Container
from pinfold.policy.rules.podaffinity.label_selector import LabelSelector
from pinfold.policy.rules.podaffinity.rule_set import PlacementRules, RequiredTerm, SpreadRule
from pinfold.policy.rules.podaffinity.standing_rules import StandingRules
from pinfold.policy.rules.podaffinity.term import Term
from pinfold.topology.model.machine import Level
from tests.unit.policy.engine.ruled_pods import container_of

QUIET = Term(level=Level.CORE, selector=LabelSelector.equals(app="quiet"))


def owned_by(*owners: Container, is_anti: bool) -> StandingRules:
    standing = StandingRules()
    for one in owners:
        required = (RequiredTerm(term=QUIET, is_anti=is_anti),)
        standing.add(one, PlacementRules(required=required))
    return standing


def test_the_rules_about_a_container_are_known_until_one_goes() -> None:
    first, second, quiet = map(container_of, ("first", "second", "quiet"))
    standing = owned_by(first, second, is_anti=True)
    found = standing.matching(quiet)
    assert [[*one.owners] for one in found] == [[first.id, second.id]]
    assert standing.matching(quiet) is found
    standing.remove(first.id)
    assert [[*one.owners] for one in standing.matching(quiet)] == [[second.id]]


def test_rules_that_none_of_a_crowd_owns_may_be_left_out() -> None:
    first, second, quiet = map(container_of, ("first", "second", "quiet"))
    standing = owned_by(first, is_anti=True)
    other = Term(level=Level.NUMA, selector=QUIET.selector)
    standing.add(second, PlacementRules(required=(RequiredTerm(term=other, is_anti=True),)))
    crowd = standing.crowd([second.id, quiet.id])
    assert [[*one.owners] for one in standing.keeping_apart(quiet, crowd)] == [[second.id]]
    assert [[*one.owners] for one in standing.keeping_apart(quiet)] == [[first.id], [second.id]]
    assert not standing.keeping_apart(quiet, standing.crowd([quiet.id]))


def test_rules_to_be_with_others_keep_nobody_apart() -> None:
    first, second, quiet = map(container_of, ("first", "second", "quiet"))
    standing = owned_by(first, is_anti=True)
    standing.add(second, PlacementRules(required=(RequiredTerm(term=QUIET, is_anti=False),)))
    everybody = standing.crowd([first.id, second.id])
    assert [[*one.owners] for one in standing.keeping_apart(quiet, everybody)] == [[first.id]]
    assert [[*one.owners] for one in standing.matching(quiet)] == [[first.id], [second.id]]
    assert [[*one.owners] for one in standing.keeping_apart(quiet)] == [[first.id]]


def test_who_wants_others_does_so_as_long_as_it_is_there() -> None:
    first, second = map(container_of, ("first", "second"))
    standing = owned_by(first, is_anti=False)
    standing.add(second, PlacementRules(required=(RequiredTerm(term=QUIET, is_anti=True),)))
    assert [*standing.wants_others] == [first.id]
    standing.remove(first.id)
    assert not standing.wants_others


def test_who_wants_others_is_named_in_the_order_in_which_they_came() -> None:
    """Of very many the first ones are looked at first: a set has another order each time."""
    owners = [container_of(f"owner{number * 7 % 40}") for number in range(40)]
    standing = owned_by(*owners, is_anti=False)
    assert [*standing.wants_others] == [one.id for one in owners]


def test_rules_that_require_somebody_are_found_in_one_order() -> None:
    about = [container_of(f"pod{number * 7 % 40}") for number in range(40)]
    standing = StandingRules()
    for number in range(40):
        selector = LabelSelector.equals(app=f"pod{number}")
        rule = RequiredTerm(term=Term(level=Level.CORE, selector=selector), is_anti=False)
        standing.add(container_of(f"owner{number}"), PlacementRules(required=(rule,)))
    found = [one.rule.term.selector for one in standing.requiring(about)]
    assert found == [LabelSelector.equals(app=one.pod.labels["app"]) for one in about]


def test_a_container_whose_labels_changed_is_looked_up_anew() -> None:
    standing = owned_by(container_of("first"), is_anti=True)
    assert standing.matching(container_of("one", app="quiet"))
    assert not standing.matching(container_of("one", app="loud"))
    assert standing.matching(container_of("one", app="quiet"))


def test_who_is_required_is_known_until_nobody_requires_it_any_more() -> None:
    first, quiet = map(container_of, ("first", "quiet"))
    standing = owned_by(first, is_anti=False)
    assert standing.is_required(quiet)
    assert not standing.is_required(container_of("quiet", app="loud"))
    assert standing.is_required(quiet)
    standing.remove(first.id)
    assert not standing.is_required(quiet)


def test_who_is_kept_apart_is_so_until_nobody_else_must_not_be_with_it() -> None:
    first, quiet = map(container_of, ("first", "quiet"))
    standing = owned_by(first, is_anti=True)
    standing.add(quiet, PlacementRules(required=(RequiredTerm(term=QUIET, is_anti=True),)))
    assert standing.is_kept_apart(quiet)
    assert not standing.is_kept_apart(container_of("quiet", app="loud"))
    assert standing.is_kept_apart(quiet)
    standing.remove(first.id)
    assert not standing.is_kept_apart(quiet)


def test_who_must_be_with_others_is_not_kept_apart_from_them() -> None:
    quiet = container_of("quiet")
    standing = owned_by(container_of("first"), is_anti=False)
    assert not standing.is_kept_apart(quiet)
    assert standing.matching(quiet)
    assert not standing.is_kept_apart(quiet)


def test_who_is_counted_is_so_as_long_as_another_of_its_namespace_has_the_rule() -> None:
    first, second, quiet = map(container_of, ("first", "second", "quiet"))
    rule = SpreadRule(level=Level.NUMA, selector=QUIET.selector, max_skew=1, is_required=True)
    standing = StandingRules()
    for one in (first, second):
        standing.add(one, PlacementRules(spread=(rule, rule)))
    assert standing.spreads.is_counted(quiet)
    assert not standing.spreads.is_counted(container_of("quiet", namespace="other"))
    standing.remove(first.id)
    assert standing.spreads.is_counted(quiet)
    standing.remove(second.id)
    assert not standing.spreads.is_counted(quiet)
    standing.add(quiet, PlacementRules(spread=(rule,)))
    assert not standing.spreads.is_counted(quiet)

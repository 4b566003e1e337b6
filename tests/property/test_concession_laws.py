"""Laws of rules that hold nowhere: they cost no other rule, and nobody his place."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Refusal
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

MACHINES = ("socket:1 core:8 mem:4G", "socket:1 l3:2 core:4 thread:2 mem:4G")
HOPELESS = container_of("hopeless", 0.1, apart(term("numa", "it")), shares=True)
"""Nobody can be outside of the only NUMA node."""


NEIGHBOUR = container_of("neighbour", 0.1, shares=True)
BESIDE_NOBODY = term("numa", "neighbour")


def must_hold(container: Container) -> bool:
    """Whether a container is rather refused than that a rule of it does not hold."""
    return "fail" in container.pod.annotations.values()


@st.composite
def pods(draw: st.DrawFn, name: str, has_hopeless: bool = False) -> Container:
    """A pod with at most one rule about each of the others.

    `has_hopeless`: it must be apart from everybody's neighbour, too, and no rule of it insists.
    """
    terms = [
        term(draw(st.sampled_from(("core", "l3"))), app)
        for app in ("it", "one", "two")
        if app != name and draw(st.booleans())
    ]
    alone = (BESIDE_NOBODY,) if has_hopeless else ()
    if draw(st.booleans()):
        rules = apart(*terms[:1], *alone) | near(*terms[1:])
    else:
        rules = apart(*terms, *alone)
    return container_of(
        name,
        draw(st.sampled_from((0, 0.1, 0.5, 1, 2))),
        rules if terms or alone else None,
        fails=not has_hopeless and draw(st.booleans()),
        shares=draw(st.booleans()),
    )


def newest(machine: str, containers: Sequence[Container]) -> Decision:
    """What is decided about the last of some containers."""
    engine = engine_of(machine)
    decisions = [engine.create(one) for one in containers]
    for decision in decisions[:-1]:
        if isinstance(decision.result, Refusal):
            engine.remove(decision.container_id)
    engine.check()
    return decisions[-1]


def assert_costs_no_other_rule(
    machine: str, extra: Container, residents: Sequence[Container], it: Container
) -> None:
    """A rule between the newcomer and one more resident changes nothing for all others."""
    without = newest(machine, (*residents, it))
    beside = newest(machine, (*residents, extra, it))
    assert isinstance(beside.result, Refusal) == isinstance(without.result, Refusal)
    lost = [text for text in beside.unmet if extra.path not in text]
    assert len(lost) == len(without.unmet)


@given(st.sampled_from(MACHINES), pods("one"), pods("two"), pods("it"))
def test_a_rule_that_holds_nowhere_costs_no_other_rule(
    machine: str, one: Container, two: Container, it: Container
) -> None:
    assert_costs_no_other_rule(machine, HOPELESS, (one, two), it)


@given(st.sampled_from(MACHINES), pods("one"), pods("two"), pods("it", has_hopeless=True))
def test_one_of_its_own_that_holds_nowhere_costs_a_newcomer_no_other(
    machine: str, one: Container, two: Container, it: Container
) -> None:
    assert_costs_no_other_rule(machine, NEIGHBOUR, (one, two), it)


@given(st.sampled_from(MACHINES), pods("one"), pods("two"), pods("three"), st.booleans(), st.data())
def test_rules_that_need_not_hold_cost_nobody_its_place(
    machine: str,
    one: Container,
    two: Container,
    three: Container,
    is_its_own: bool,
    data: st.DataObject,
) -> None:
    it = data.draw(pods("it", has_hopeless=is_its_own).filter(lambda made: not must_hold(made)))
    bare = structs.replace(it, pod=structs.replace(it.pod, annotations={}))
    if isinstance(newest(machine, (one, two, three, it)).result, Refusal):
        assert isinstance(newest(machine, (one, two, three, bare)).result, Refusal)

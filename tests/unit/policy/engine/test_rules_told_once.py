"""A rule that several containers break is one text of its owner, and is counted once."""

import pytest

from pinfold.policy.engine.decision import unmet_rule_names
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.gauges.gauge_reader import GaugeReader
from pinfold.policy.model.container import Container
from pinfold.policy.placing.judging.restriction import TOLD_MAX
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, placed, term

RULE = "anti-affinity at socket to app=wolf (affinity.pinfold.dev/pod:1) of default/shy/main"
SHY = container_of("shy", 0.1, apart(term("socket", "wolf")))


def wolf(number: int, pod: str = "") -> Container:
    return container_of(f"wolf{number}", 0.1, app="wolf", pod=pod)


def among(count: int) -> Engine:
    """One that wants no wolf beside it, and so many that come afterwards."""
    engine = engine_of("socket:1 numa:1 core:4 mem:4G")
    for one in (SHY, *map(wolf, range(count))):
        placed(engine, one)
    return engine


def told(engine: Engine, of: Container = SHY) -> tuple[str, ...]:
    return engine.decisions[of.id].unmet


def with_wolves(*numbers: int, more: int = 0) -> tuple[str, ...]:
    names = ", ".join(f"default/wolf{number}/main" for number in numbers)
    return (f"{RULE}: in one socket with {names}{f' and {more} more' if more else ''}",)


@pytest.mark.parametrize(
    ("count", "texts"),
    [
        pytest.param(1, with_wolves(0), id="one"),
        pytest.param(4, with_wolves(0, 1, 2, 3), id="as many as are named"),
        pytest.param(5, with_wolves(0, 1, 2, 3, more=1), id="one more than are named"),
        pytest.param(
            TOLD_MAX + 4, with_wolves(0, 1, 2, 3, more=TOLD_MAX), id="more than there are texts for"
        ),
    ],
)
def test_newcomers_that_break_one_rule_are_named_in_its_one_text(
    count: int, texts: tuple[str, ...]
) -> None:
    engine = among(count)
    assert told(engine) == texts
    assert [one.what for one in engine.decisions[SHY.id].problems] == [*texts]


def test_a_rule_is_counted_once_however_many_break_it() -> None:
    """It is told of its owner, and of each of them."""
    engine = among(6)
    assert [*unmet_rule_names(engine.decisions.values())] == [RULE]
    gauges = {one.name: one for one in GaugeReader().read(engine.snapshot(), {})}
    assert [*gauges["policy.rule.unmet.count"].values] == [1]


def test_those_are_named_who_are_left() -> None:
    engine = among(6)
    for number, left in enumerate(((0, 2, 3, 4, 5), (0, 2, 3, 5), (0, 2, 3))):
        engine.remove(wolf((1, 4, 5)[number]).id)
        engine.compact(SHY.id)
        assert told(engine) == with_wolves(*left[:4], more=len(left[4:]))
    for number in (0, 2, 3):
        engine.remove(wolf(number).id)
    assert told(engine) == ()


def test_a_name_that_ends_like_a_number_of_others_is_none() -> None:
    """Kubernetes allows no such names; other clients of a runtime do."""
    engine = engine_of("socket:1 numa:1 core:4 mem:4G")
    for one in (SHY, container_of("odd", 0.1, app="wolf", main="one and 3 more"), wolf(0)):
        placed(engine, one)
    engine.compact(SHY.id)
    names = "default/odd/one and 3 more, default/wolf0/main"
    assert told(engine) == (f"{RULE}: in one socket with {names}",)


def test_one_that_restarts_among_those_that_are_not_named_is_no_further_one() -> None:
    engine = among(6)
    engine.create(container_of("wolf5", 0.1, app="wolf", instance="again"))
    engine.remove(wolf(5).id)
    engine.compact(SHY.id)
    assert told(engine) == with_wolves(0, 1, 2, 3, more=2)


def test_those_inside_a_pen_and_outside_of_it_are_named_together() -> None:
    engine = engine_of("socket:1 numa:1 core:8 mem:4G")
    pen = {"pod-pool.pinfold.dev/pod": "true"}
    rules = apart(term("socket", "wolf"))
    shy, mate = (
        container_of("den", 0.1, rules, app="wolf", main=name, annotations=pen)
        for name in ("shy", "mate")
    )
    for one in (shy, mate, wolf(0)):
        placed(engine, one)
    (text,) = (one for one in told(engine, shy) if one.partition(": ")[0].endswith(shy.path))
    assert {"default/den/mate", "default/wolf0/main"} <= {*text.rpartition(" with ")[2].split(", ")}


def test_two_spread_rules_that_differ_in_their_least_domains_are_both_told() -> None:
    even = {**term("numa", "web"), "maxSkew": 1}
    at_first, at_second = ({"pool-name.pinfold.dev/pod": f"NUMA node #{one}"} for one in (0, 1))
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    placed(engine, container_of("there", 0.1, app="web", annotations=at_second))
    placed(engine, container_of("full", 3, annotations=at_second))
    for number in range(5):
        placed(engine, container_of(f"here{number}", 0.1, app="web", annotations=at_first))
    rules = {"topologySpread": [{**even, "minDomains": 3}, even]}
    newcomer = container_of("new", 2, rules, app="web", shares=True)
    placed(engine, newcomer)
    for _ in range(2):
        texts = told(engine, newcomer)
        assert ["3 of them at least" in one for one in texts] == [True, False]
        reasons = [one.rpartition(": ")[2] for one in texts]
        assert reasons == [
            "it wants a NUMA node with none of these containers",
            "it wants a NUMA node with at most 1 of these containers, as that of cpus 4-7",
        ]
        engine.remove(container_of("here0", 0.1).id)
        engine.compact(newcomer.id)

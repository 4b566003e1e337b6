"""What pods with as many required and preferred rules as there may be cost others, in calls.

How long anything takes is nobody's concern here: see `tests/bench/hostile_residents.py`.
"""

from functools import partial
from typing import Any

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from tests.bench.hostile_terms import shapes_of_terms
from tests.unit.counted_calls import count_calls
from tests.unit.policy.engine.ruled_pods import container_of, engine_of, near, prefer, term

_MACHINE = "socket:2 numa:2 l3:2 core:4 thread:2 mem:32G"
_RESIDENTS = 60
_CALLS_MAX = 40_000
"""Of Python in one event, much more than that takes 20 ms."""
_OTHERS_CALLS_MAX = 20_000
_NEXT_CALLS_MAX = 2_900
"""Of the next pod, however many have however many rules against it."""
_OF_SHAPES = {
    "1 terms against everybody": 6_800,
    "terms by chance 5": 1_400,
    "terms by chance 6": 1_950,
    "terms by chance 10": 1_650,
}
"""More where each rule is another container's, and each of them has to be told; less where nobody
can make way and all pools break the same rules."""
_ELSEWHERE_CALLS_MAX = 2_100
"""And of another namespace."""
SHAPES = shapes_of_terms()
_SAME_RULES = (
    "terms, the same of all against everybody",
    "terms, the same of all for everybody",
    "terms by chance 10",
)


def _container(
    number: int, name: str, annotations: dict[str, str], namespace: str = "default"
) -> Container:
    pod = Pod(
        id=PodId(f"{name}-{number}"),
        uid=f"{name}-{number}",
        name=f"{name}-{number}",
        namespace=namespace,
        qos=QosClass.BURSTABLE,
        annotations=annotations,
    )
    resources = Resources(cpu_request_milli=10)
    return Container(id=ContainerId(f"{name}-{number}"), name="c", pod=pod, resources=resources)


def _crowd(shape: str, namespace: str = "default", residents: int = _RESIDENTS) -> Engine:
    engine = engine_of(_MACHINE)
    for number in range(residents):
        container = _container(number, "hostile", dict(SHAPES[shape](number)), namespace)
        engine.create(container)
        engine.note(container.id)
        engine.compact(container.id)
    return engine


@pytest.mark.parametrize("shape", SHAPES)
def test_no_event_of_a_pod_full_of_rules_costs_much(shape: str) -> None:
    engine = _crowd(shape)
    one = _container(_RESIDENTS, "hostile", dict(SHAPES[shape](_RESIDENTS)))
    more = Resources(cpu_request_milli=20)
    plain = _container(0, "plain", {})
    assert count_calls(lambda: engine.create(one)) < _CALLS_MAX
    assert count_calls(lambda: engine.note(one.id)) < _OTHERS_CALLS_MAX
    assert count_calls(lambda: engine.create(plain)) < _OF_SHAPES.get(shape, _NEXT_CALLS_MAX)
    assert count_calls(lambda: engine.update(one.id, more)) < _CALLS_MAX
    assert count_calls(lambda: engine.stop(one.id)) < _CALLS_MAX
    assert count_calls(lambda: engine.stop(plain.id)) < _OTHERS_CALLS_MAX
    engine.check()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_next_pod_pays_for_no_owner_of_rules_of_another_namespace(shape: str) -> None:
    engine = _crowd(shape, "elsewhere")
    engine.create(_container(_RESIDENTS, "hostile", dict(SHAPES[shape](_RESIDENTS)), "elsewhere"))
    plain = _container(0, "plain", {})
    assert count_calls(lambda: engine.create(plain)) < _ELSEWHERE_CALLS_MAX


@pytest.mark.parametrize("namespace", ["default", "elsewhere"])
@pytest.mark.parametrize("shape", _SAME_RULES)
def test_a_further_owner_of_the_same_rules_costs_the_next_pod_no_call(
    shape: str, namespace: str
) -> None:
    few, many = (_crowd(shape, namespace, residents) for residents in (40, 80))
    least = count_calls(lambda: few.create(_container(0, "plain", {})))
    assert count_calls(lambda: many.create(_container(0, "plain", {}))) <= least


@pytest.mark.parametrize(
    ("count", "is_waited_for"),
    [
        pytest.param(4, True, id="whoever has few rules is looked at when their newcomer comes"),
        pytest.param(20, False, id="whoever has very many is looked at when nobody waits"),
    ],
)
def test_looking_at_many_rules_waits_until_nobody_waits(count: int, *, is_waited_for: bool) -> None:
    engine = engine_of(_MACHINE)
    rules = [term("socket", labelSelector=_either("db", f"db-{one}")) for one in range(count)]
    owner = container_of("owner", rules=near(*rules))
    engine.create(owner)
    told = engine.decisions[owner.id].unmet
    newcomer = container_of("newcomer", app="db")
    engine.create(newcomer)
    found = () if is_waited_for else told
    assert told
    assert engine.decisions[owner.id].unmet == found
    engine.compact(newcomer.id)
    assert engine.decisions[owner.id].unmet == ()


def _either(*apps: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": [*apps]}]}


def test_what_still_has_to_be_looked_at_waits_until_nobody_waits() -> None:
    engine = _crowd("4 terms against everybody")
    for number in range(_RESIDENTS // 2):
        engine.stop(ContainerId(f"hostile-{number}"))
    before = {one: decision.unmet for one, decision in engine.decisions.items()}
    for _ in range(_RESIDENTS):
        engine.compact(ContainerId("nobody"))
    found = {one: decision.unmet for one, decision in engine.decisions.items()}
    assert found != before


@pytest.mark.parametrize(
    "is_anti", [pytest.param(False, id="beside few"), pytest.param(True, id="apart from few")]
)
def test_a_note_about_few_containers_costs_no_call_for_all_the_others(*, is_anti: bool) -> None:
    calls: list[int] = []
    for residents in (20, 200):
        engine = engine_of(_MACHINE)
        for number in range(residents):
            engine.create(container_of(f"other-{number}", cpu=0.01))
        engine.create(container_of("db", cpu=0.01))
        wish = prefer(10, term("core", "db"), is_anti=is_anti)
        newcomer = container_of("newcomer", cpu=0.01, rules=wish)
        engine.create(newcomer)
        calls.append(count_calls(partial(engine.note, newcomer.id)))
    few, many = calls
    assert many <= few

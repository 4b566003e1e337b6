"""Newcomers that take the last cpus of a domain: who shared it is not counted there any more."""

from typing import Any

import pytest

from pinfold.policy.model.grant import Grant
from tests.unit.policy.engine.ruled_pods import container_of, cpus, engine_of, placed, term


def even(level: str, max_skew: int = 1) -> dict[str, Any]:
    return {"topologySpread": [{**term(level, "web"), "maxSkew": max_skew}]}


@pytest.mark.parametrize("is_firm", [True, False])
@pytest.mark.parametrize(
    ("machine", "level", "cpu", "others", "place", "left"),
    [
        pytest.param("core:4", "core", 1, 2, "2", "3", id="a core of one thread"),
        pytest.param("core:4 thread:2", "core", 2, 2, "4-5", "6-7", id="a core of two"),
        pytest.param("core:4 thread:2", "core", 1, 2, "", "4-7", id="the other thread is shared"),
    ],
)
def test_who_is_driven_out_of_a_domain_is_not_counted_there(
    machine: str, level: str, cpu: int, others: int, place: str, left: str, is_firm: bool
) -> None:
    engine = engine_of(machine, "cpuset:0-1" if "thread" in machine else "cpuset:0")
    placed(engine, container_of("first", 2 if "thread" in machine else 1))
    webs = [container_of(f"web-{number}", 0.1, app="web") for number in range(others)]
    assert {placed(engine, one) for one in webs} == {"4-7" if "thread" in machine else "2-3"}
    new = container_of("new", cpu, even(level), app="web", fails=is_firm)
    result = engine.create(new).result
    assert isinstance(result, Grant) is (bool(place) or not is_firm)
    if place:
        assert cpus(engine, new) == place
        assert [cpus(engine, one) for one in webs] == [left] * others
    assert bool(engine.decisions[new.id].unmet) is (not place and not is_firm)
    engine.check()
    if place:
        engine.remove(new.id)
        assert {cpus(engine, one) for one in webs} == {"4-7" if "thread" in machine else "2-3"}

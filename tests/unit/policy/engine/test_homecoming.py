"""Containers that were driven out come home also where somebody asks for less than before."""

from msgspec.structs import replace

from pinfold.policy.model.container import Container, Resources
from pinfold.policy.model.grant import Grant, Refusal
from tests.unit.policy.engine.ruled_pods import apart, container_of, cpus, engine_of, placed, term

NODES = "socket:2 numa:2 core:2 mem:4G"
"""NUMA nodes of two cpus each: 0 (reserved) and 1, 2-3, 4-5, 6-7."""
THIRD = {"pool-name.pinfold.dev/pod": "NUMA node #2"}


def resources(container: Container, cpu: int) -> Resources:
    milli = cpu * 1000
    return replace(container.resources, cpu_request_milli=milli, cpu_limit_milli=milli)


def test_who_was_driven_out_comes_home_when_its_driver_asks_for_less() -> None:
    engine = engine_of(NODES)
    quiet = container_of("quiet", 0, apart(term("core", "noisy")), annotations=THIRD)
    taker = container_of("taker", 2, annotations=THIRD)
    assert [placed(engine, one) for one in (quiet, taker)] == ["4-5", "4-5"]
    away = cpus(engine, quiet)
    assert away != "4-5"
    decision = engine.update(taker.id, resources(taker, 1))
    engine.check()
    assert isinstance(decision.result, Grant)
    assert str(decision.result.exclusive) == "4"
    assert cpus(engine, quiet) == "5"
    (change,) = decision.changes
    assert (change.container_id, str(change.before.cpus)) == (quiet.id, away)
    assert str(change.after.cpus) == "5"


def test_who_comes_home_as_another_shrinks_is_told_once() -> None:
    """What it was lent for a moment is told to nobody."""
    engine = engine_of(NODES)
    quiet = container_of("quiet", 0, apart(term("core", "noisy")), annotations=THIRD)
    taker = container_of("taker", 2, annotations=THIRD)
    for one in (quiet, taker):
        placed(engine, one)
    changes = engine.update(taker.id, resources(taker, 1)).changes
    assert [(one.container_id, one.after) for one in changes] == [
        (quiet.id, engine.pinning(quiet.id))
    ]
    assert engine.decisions[taker.id].changes == changes


def test_who_was_driven_out_comes_home_when_a_pod_with_a_pen_shrinks() -> None:
    engine = engine_of("socket:2 numa:2 core:4 mem:4G")
    quiet = container_of("quiet", 0, apart(term("core", "noisy")), annotations=THIRD)
    placed(engine, quiet)
    taker = container_of("taker", 1, annotations={**THIRD, "pod-pool.pinfold.dev/pod": "true"})
    pod = replace(taker.pod, resources=resources(taker, 4))
    taker = replace(taker, pod=pod)
    assert placed(engine, taker) == "8"
    assert cpus(engine, quiet) == "12-15"
    changes = engine.resize_pod(taker.pod, resources(taker, 2))
    engine.check()
    assert not isinstance(changes, Refusal)
    assert [one.container_id for one in changes] == [quiet.id]
    assert cpus(engine, quiet) == "10-11"

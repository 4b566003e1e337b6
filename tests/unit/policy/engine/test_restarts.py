"""Containers that restart in place: what is remembered of where they were, and for how long."""

from dataclasses import replace

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import NodeSet

MACHINE = machine_from_spec("socket:2 core:4 mem:4G")


def container(name: str, milli: int, serial: int = 0) -> Container:
    pod = Pod(id=PodId(f"{name}-{serial}"), uid=name, name=name, qos=QosClass.GUARANTEED)
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )
    return Container(id=ContainerId(f"{name}-{serial}"), name=name, pod=pod, resources=resources)


@pytest.fixture(name="engine")
def fixture_engine() -> Engine:
    """An engine in which a container of two cpus was, where another would be better by now."""
    engine = Engine(MACHINE, Config())
    engine.create(container("other", 3000))
    engine.create(container("it", 2000))
    engine.stop(ContainerId("it-0"))
    engine.remove(ContainerId("it-0"))
    engine.remove(ContainerId("other-0"))
    return engine


def test_a_restart_finds_its_place_again(engine: Engine) -> None:
    assert engine.create(container("it", 2000, 1)).decided_by == "restarted"
    engine.check()


def test_nobody_else_has_it(engine: Engine) -> None:
    assert engine.create(container("another", 2000)).decided_by != "restarted"


def test_a_place_that_is_taken_is_not_waited_for(engine: Engine) -> None:
    for serial in range(3):
        engine.create(container(f"big{serial}", 2000))
    decision = engine.create(container("it", 1000, 1))
    assert decision.decided_by != "restarted"
    engine.check()


def test_other_amounts_are_placed_anew(engine: Engine) -> None:
    assert engine.create(container("it", 3000, 1)).decided_by != "restarted"


def test_hints_that_were_not_known_before_count(engine: Engine) -> None:
    hint = Hint(provider="gpu", origin=HintOrigin.DEVICE, numa_nodes=NodeSet.of(0))
    again = replace(container("it", 2000, 1), hints=(hint,))
    assert engine.create(again).decided_by != "restarted"


@pytest.mark.parametrize(("uid", "is_forgotten"), [("it", True), ("other", False), (None, True)])
def test_a_pod_that_is_gone_has_no_place(
    engine: Engine, uid: str | None, is_forgotten: bool
) -> None:
    engine.forget_places(uid)
    decision = engine.create(container("it", 2000, 1))
    assert (decision.decided_by != "restarted") == is_forgotten

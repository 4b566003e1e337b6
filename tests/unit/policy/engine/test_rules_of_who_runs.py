"""Rules between containers that run already, and go where nobody would have placed them."""

from dataclasses import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import apart, container_of, cpus, engine_of, placed, term

TWO_NODES = "socket:2 core:3 mem:4G"
"""Cpus 0 to 2 (0 is reserved), and 3 to 5."""

FIRST, SECOND = ({"pool-name.pinfold.dev/pod": f"socket #{number}"} for number in (0, 1))


def is_told(engine: Engine, *concerned: Container) -> bool:
    return any(engine.decisions[one.id].unmet for one in concerned)


def test_who_runs_and_fits_nowhere_does_not_grow_to_where_its_rule_breaks() -> None:
    """It is on all cpus that are left; those that come back are next to whom it must not be."""
    engine = engine_of(TWO_NODES)
    other, noisy = container_of("other", 2), container_of("noisy", 1, annotations=SECOND)
    assert (placed(engine, other), placed(engine, noisy)) == ("3-4", "5")
    alone = container_of("alone", 3, apart(term("socket", "noisy")), fails=True)
    engine.adopt(alone)
    assert cpus(engine, alone) == "1-2"
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, alone) == "1-2"
    engine.remove(noisy.id)
    assert cpus(engine, alone) == "1-5"


def test_who_is_lent_cpus_next_to_another_by_a_reload_is_told() -> None:
    """One may not use its cpus any more, and the other shares a pool that is left none."""
    engine = engine_of(TWO_NODES)
    own = container_of("own", 2, annotations=SECOND)
    alone = container_of("alone", 0, apart(term("socket", "noisy")), fails=True)
    noisy = container_of("noisy", 0.5, annotations=FIRST)
    assert placed(engine, own) == "3-4"
    assert (placed(engine, noisy), placed(engine, alone)) == ("1-2", "5")
    fields = {"available": "exclude-cpuset:1-2", "reserved": "cpuset:5"}
    config = config_from_values({f"{key}Resources": {"cpu": one} for key, one in fields.items()})
    engine, _ = engine.reconfigured(config)
    engine.check()
    assert (cpus(engine, alone), cpus(engine, noisy)) == ("0", "0")
    assert is_told(engine, alone)


def test_who_was_left_no_cpu_does_not_grow_to_where_another_may_grow_as_well() -> None:
    """Both may have cpus that are somebody's own by then; once those come back, one has them."""
    engine = engine_of("socket:1 core:6 mem:4G")
    first = container_of("first", 2)
    alone = container_of("alone", 0.5, apart(term("core", "noisy")), fails=True)
    noisy = container_of("noisy", 0)
    assert [placed(engine, one) for one in (first, alone, noisy)] == ["1-2", "3-5", "3"]
    placed(engine, container_of("second", 1))
    assert placed(engine, container_of("third", 1)) == "3"
    assert (cpus(engine, alone), cpus(engine, noisy)) == ("4", "0")
    engine.remove(first.id)
    engine.check()
    assert not CpuSet.parse(cpus(engine, alone)) & CpuSet.parse(cpus(engine, noisy))
    engine.remove(noisy.id)
    assert cpus(engine, alone) == "1-2,4"


def test_a_pen_that_was_left_the_reserved_cpus_is_known_after_a_restart() -> None:
    """Nobody in it asks for anything, and all other cpus are a container's own."""
    engine = engine_of("socket:1 core:3 mem:4G")
    wish = {"pod-pool.pinfold.dev/container.first": "true"}
    first, second = (
        container_of(name, 0, pod="pod", main=name, annotations=wish, shares=True)
        for name in ("first", "second")
    )
    for one in (first, second, container_of("own", 2)):
        placed(engine, one)
    engine.remove(first.id)
    assert (cpus(engine, second), engine.grants[second.id].pen) == ("0", "pod pod")
    listed = [
        replace(one, cpus=pinning.cpus, mems=pinning.mems)
        for one in engine.containers.values()
        if (pinning := engine.pinning(one.id))
    ]
    again = engine_of("socket:1 core:3 mem:4G")
    assert again.synchronize(listed, engine.snapshot().advice()).changes == ()
    again.check()
    assert again.grants[second.id].pen == "pod pod"

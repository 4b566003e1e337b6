"""Containers that are left as they run for a fault of ours, as newcomers find them."""

from msgspec.structs import replace

from pinfold.policy.model.container import ContainerState
from pinfold.topology.sets.cpuset import CpuSet

from .ruled_pods import apart, container_of, engine_of, reason, term


def test_a_refusal_may_name_one_that_is_left_as_it_runs() -> None:
    """Whoever makes room is looked for among all that have cpus of their own."""
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    alone = replace(
        container_of("alone", 3), state=ContainerState.RUNNING, cpus=CpuSet.parse("4-6")
    )
    found = engine.synchronize([alone], unread={alone.id: ValueError("odd")})
    assert found.faults
    engine.create(container_of("other", 2))
    rules = apart(term("numa", "other"))
    refused = engine.create(container_of("newcomer", 3, rules, fails=True))
    assert reason(refused).endswith("stop or move one of default/other/main, default/alone/main")
    engine.check()


def test_one_that_restarts_learns_who_is_left_as_it_runs_on_its_cpus() -> None:
    engine = engine_of("socket:1 core:4 mem:4G")
    first = container_of("first", 3)
    engine.create(first)
    had = engine.grants[first.id].exclusive
    engine.stop(first.id)
    alone = replace(container_of("alone", 3), state=ContainerState.RUNNING, cpus=had)
    engine.synchronize([alone], unread={alone.id: ValueError("odd")})
    again = engine.create(replace(first, id=type(first.id)("again")))
    assert reason(again).endswith(
        f"the CPUs {had} that it had before its restart are {alone.path}'s"
    )

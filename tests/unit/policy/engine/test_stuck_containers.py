"""Stuck containers: nobody gets for itself what they run on, as long as there is anything else."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.inquiry.audit import REFUSED, find_drift
from pinfold.policy.model.container import Container, ContainerId, Resources
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)
from tests.unit.policy.engine.test_left_cpus import THREE_NODES, in_node, move


def stuck_sharer(engine: Engine, kernel: str = "4-7", node: int = 1) -> Container:
    """A container that shares the cpus of a node, and that the runtime does not take off some."""
    sharer = container_of("sharer", 0.5, annotations=in_node(node))
    placed(engine, sharer)
    engine.stuck_containers.note({sharer.id: CpuSet.parse(kernel)})
    engine.check()
    return sharer


def told(engine: Engine, container: Container) -> list[str]:
    return [one.what for one in engine.decisions[container.id].problems if one.where == "stuck"]


def test_a_newcomer_gets_others_for_itself_where_there_are_some() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    newcomer, one = container_of("newcomer", 2), container_of("one", 3)
    assert CpuSet.parse(placed(engine, one)).isdisjoint(CpuSet.parse("4-7"))
    assert CpuSet.parse(placed(engine, newcomer)).isdisjoint(CpuSet.parse("4-7"))
    assert told(engine, one) == told(engine, newcomer) == []
    engine.check()


def test_a_newcomer_for_which_there_are_no_others_has_them_and_is_told() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    placed(engine, container_of("plug", 4, annotations=in_node(2)))
    assert placed(engine, container_of("newcomer", 3)) == "1-3"
    last = container_of("last", 2)
    own = placed(engine, last)
    assert CpuSet.parse(own) <= CpuSet.parse("4-7")
    (text,) = told(engine, last)
    assert text == (
        f"cpus {own} of its own are also run on by default/sharer/main: "
        "the runtime refuses to take it off"
    )
    assert engine.decisions[last.id].degraded == text
    engine.check()


def test_those_who_share_cpus_get_the_same_as_ever() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine)
    assert placed(engine, container_of("other", 1.5, annotations=in_node(1), shares=True)) == "4-7"


def test_who_had_such_cpus_before_that_was_known_is_told_and_once_it_is_over() -> None:
    engine = engine_of(THREE_NODES)
    sharer = container_of("sharer", 0.5, annotations=in_node(1))
    owner = container_of("owner", 2, annotations=in_node(1))
    placed(engine, sharer)
    placed(engine, owner)
    assert told(engine, owner) == []
    kernel = CpuSet.parse("4-7")
    assert engine.stuck_containers.note({sharer.id: kernel}) == [owner.id]
    assert engine.stuck_containers.note({sharer.id: kernel}) == ()
    assert len(told(engine, owner)) == 1
    assert engine.stuck_containers.note({}) == []
    assert (told(engine, owner), engine.decisions[owner.id].degraded) == ([], "")


def test_one_that_is_gone_keeps_nobody_away() -> None:
    engine = engine_of(THREE_NODES)
    sharer = stuck_sharer(engine)
    placed(engine, container_of("plug", 4, annotations=in_node(2)))
    engine.remove(sharer.id)
    newcomer = container_of("newcomer", 4)
    assert placed(engine, newcomer) == "4-7"
    assert told(engine, newcomer) == []
    engine.check()


def test_cpus_that_somebody_gives_back_meanwhile_are_kept_from_newcomers_as_well() -> None:
    engine = engine_of(THREE_NODES)
    owner = container_of("owner", 2, annotations=in_node(1))
    placed(engine, owner)
    stuck_sharer(engine)
    engine.remove(owner.id)
    engine.check()
    assert placed(engine, container_of("newcomer", 4)) == "8-11"


def test_a_container_that_grows_takes_others_too() -> None:
    engine = engine_of("socket:1 numa:2 core:8 mem:4G")
    placed(engine, container_of("plug", 7, annotations=in_node(0)))
    placed(engine, sharer := container_of("sharer", 0.5, annotations=in_node(1)))
    placed(engine, owner := container_of("owner", 2, annotations=in_node(1)))
    kernel = CpuSet.parse("8-15") - CpuSet.parse(cpus(engine, owner)) - CpuSet.parse("14-15")
    engine.stuck_containers.note({sharer.id: kernel})
    more = replace(owner.resources, cpu_request_milli=4000, cpu_limit_milli=4000)
    decision = engine.update(owner.id, more)
    assert isinstance(decision.result, Grant)
    assert decision.result.exclusive >= CpuSet.parse("14-15")
    assert told(engine, owner) == []
    most = replace(owner.resources, cpu_request_milli=6000, cpu_limit_milli=6000)
    assert isinstance(engine.update(owner.id, most).result, Grant)
    assert len(told(engine, owner)) == 1
    engine.check()


def test_a_move_goes_to_no_such_cpus() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine, "8-9", node=2)
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    placed(engine, owner := container_of("owner", 2))
    assert CpuSet.parse(cpus(engine, owner)) <= CpuSet.parse("4-7")
    move(engine, owner, 2)
    assert cpus(engine, owner) == "10-11"


def test_rules_that_may_break_give_way() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine, "8-11", node=2)
    placed(engine, container_of("wolf", 0.5, app="wolf", annotations=in_node(1)))
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    shy = container_of("shy", 2, apart(term("numa", "wolf")))
    assert CpuSet.parse(placed(engine, shy)) <= CpuSet.parse("4-7")
    assert engine.decisions[shy.id].unmet
    assert told(engine, shy) == []


def test_an_insisting_rule_does_not() -> None:
    engine = engine_of(THREE_NODES)
    stuck_sharer(engine, "8-11", node=2)
    placed(engine, container_of("wolf", 0.5, app="wolf", annotations=in_node(1)))
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    shy = container_of("shy", 2, apart(term("numa", "wolf")), fails=True)
    assert CpuSet.parse(placed(engine, shy)) <= CpuSet.parse("8-11")
    assert len(told(engine, shy)) == 1


def test_who_fits_nowhere_at_all_is_refused_as_ever() -> None:
    plain, engine = engine_of(THREE_NODES), engine_of(THREE_NODES)
    placed(plain, container_of("sharer", 0.5, annotations=in_node(1)))
    stuck_sharer(engine)
    wide = container_of("wide", 12)
    assert reason(engine.create(wide)) == reason(plain.create(wide))
    engine.check()
    assert engine.stuck_containers.cpus


def test_a_copy_and_a_reload_know_of_them() -> None:
    engine = engine_of(THREE_NODES)
    sharer = stuck_sharer(engine)
    trial = Engine.of(engine.snapshot())
    trial.check()
    assert placed(trial, container_of("newcomer", 4)) == "8-11"
    other = config_from_values({"reservedResources": {"cpu": "cpuset:0"}, "pinMemory": False})
    engine, _ = engine.reconfigured(other)
    engine.check()
    assert list(engine.stuck_containers.cpus) == [sharer.id]
    assert placed(engine, container_of("newcomer", 4)) == "8-11"


@pytest.mark.parametrize("kernel", ["4-7", "0-11"])
def test_a_stuck_container_may_have_for_itself_what_it_runs_on(kernel: str) -> None:
    engine = engine_of(THREE_NODES)
    sharer = stuck_sharer(engine, kernel)
    placed(engine, container_of("plug", 3, annotations=in_node(2)))
    wants = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
    _ = engine.update(sharer.id, wants)
    assert told(engine, sharer) == []
    engine.check()


@pytest.mark.parametrize("is_full", [False, True])
def test_who_restarts_comes_back_there_only_where_there_are_no_others(is_full: bool) -> None:
    engine = engine_of(THREE_NODES)
    placed(engine, container_of("plug", 3, annotations=in_node(0)))
    placed(engine, owner := container_of("owner", 2))
    home = cpus(engine, owner)
    node, kernel = (1, "4-7") if home == "4-5" else (2, "8-11")
    sharer = stuck_sharer(engine, kernel, node)
    assert len(told(engine, owner)) == 1
    if is_full:
        others = container_of("others", 4)
        assert CpuSet.parse(placed(engine, others)).isdisjoint(CpuSet.parse(home))
    engine.stop(owner.id)
    again = replace(owner, id=ContainerId("again"))
    is_back = placed(engine, again) == home
    assert (is_back, len(told(engine, again))) == (is_full, is_full)
    assert engine.grants[sharer.id]


def test_an_audit_tells_who_is_stuck_on_whose_cpus() -> None:
    engine = engine_of(THREE_NODES)
    sharer, other = (container_of(one, 0.5, annotations=in_node(1)) for one in ("sharer", "other"))
    owner = container_of("owner", 2, annotations=in_node(1))
    for one in (sharer, other, owner):
        placed(engine, one)
    kernel = {one.id: Pinning(cpus=CpuSet.parse("4-7")) for one in (sharer, other)}
    engine.stuck_containers.note({sharer.id: CpuSet.parse("4-7")})
    first, second = find_drift(engine.snapshot(), kernel)
    assert first.likely == f"{REFUSED}; it runs on cpus of default/owner/main"
    assert second.likely != first.likely
    engine.remove(owner.id)
    kernel = {sharer.id: Pinning(cpus=CpuSet.parse("4-5"))}
    (first,) = find_drift(engine.snapshot(), kernel)
    assert first.likely == REFUSED

"""Containers that somebody drove out of their pool, and where they are once that one leaves."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    reason,
    term,
)


def in_node(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def milli(cpu: int) -> Resources:
    return Resources(cpu_request_milli=cpu, cpu_limit_milli=cpu)


def pool_of(engine: Engine, container: Container) -> str:
    return engine.tree.pools[engine.grants[container.id].pool_id].name


def driven_out() -> tuple[Engine, Container, Container, Container]:
    """An engine, and one that asks for a share of cpus 2 and 3, the owner of these, and a filler.

    The owner is back after a restart; the first one is on the reserved cpu, beside nobody from whom
    it insists to be apart.
    """
    engine = engine_of("socket:1 numa:3 core:2 mem:4G")
    owner, filler = container_of("owner", 2), container_of("filler", 1, annotations=in_node(2))
    assert placed(engine, owner) == "2-3"
    assert placed(engine, container_of("plug", 1, annotations=in_node(0))) == "1"
    assert placed(engine, container_of("noisy", 1, annotations=in_node(2))) == "4"
    assert placed(engine, filler) == "5"
    engine.stop(owner.id)
    rules = apart(term("numa", "noisy"))
    share = container_of("share", 0.25, rules, fails=True, annotations=in_node(1))
    assert placed(engine, share) == "2-3"
    back = replace(owner, id=ContainerId("owner-again"))
    assert placed(engine, back) == "2-3"
    assert cpus(engine, share) == "0"
    (told,) = engine.decisions[share.id].unmet
    assert told.endswith("it wants pool NUMA node #1")
    return engine, share, back, filler


def test_who_asks_for_cpus_is_back_in_the_pool_on_which_it_insists() -> None:
    engine, share, back, filler = driven_out()
    engine.remove(filler.id)
    assert cpus(engine, share) == "0"
    engine.remove(back.id)
    engine.check()
    assert cpus(engine, share) == "2-3"
    assert pool_of(engine, share) == "NUMA node #1"
    assert engine.decisions[share.id].unmet == ()


def test_who_asks_for_cpus_is_back_only_where_they_are_promised_to_nobody() -> None:
    engine, share, back, filler = driven_out()
    engine.remove(filler.id)
    engine.update(back.id, milli(1900))
    engine.check()
    assert engine.grants[back.id].shared_milli == 900
    # Of its own cpus the one that it gives back was promised to the other one, who shares it.
    assert pool_of(engine, back) == "socket #0"
    assert (cpus(engine, share), cpus(engine, back)) == ("3", "2-3,5")
    assert pool_of(engine, share) == "NUMA node #1"
    assert engine.decisions[share.id].unmet == ()


def test_who_asks_for_less_where_it_was_driven_to_comes_home_all_the_same() -> None:
    engine, share, back, _ = driven_out()
    assert isinstance(engine.update(share.id, milli(50)).result, Grant)
    assert pool_of(engine, share) == "socket #0"
    engine.remove(back.id)
    engine.check()
    assert pool_of(engine, share) == "NUMA node #1"
    assert engine.decisions[share.id].unmet == ()


def test_who_asks_for_so_little_that_it_has_room_at_home_is_told_that_place() -> None:
    engine, share, back, filler = driven_out()
    engine.remove(filler.id)
    engine.update(back.id, milli(1900))
    decision = engine.update(share.id, milli(50))
    engine.check()
    assert decision.pool == pool_of(engine, share) == "NUMA node #1"
    assert decision.result == engine.grants[share.id]
    assert decision.pinning == engine.pinning(share.id)
    assert decision.unmet == ()
    assert engine.decisions[share.id] == decision


@pytest.mark.parametrize("milli_cpu", [0, 100])
def test_who_insists_on_a_pool_without_shared_cpus_is_refused_however_little_it_asks(
    milli_cpu: int,
) -> None:
    engine = engine_of("socket:1 numa:3 core:2 mem:4G")
    assert placed(engine, container_of("owner", 2, annotations=in_node(1))) == "2-3"
    firm = container_of("firm", milli_cpu / 1000, annotations=in_node(1), fails=True)
    said = reason(engine.create(firm))
    place = "too little on 2-3" if not milli_cpu else "0m"
    leaving = "to make room, stop or move default/owner/main"
    assert said.endswith(f"available {place} — {leaving}"), said
    soft = container_of("soft", milli_cpu / 1000, annotations=in_node(1))
    short = (
        "shared CPU, wanted 100m, available 0m"
        if milli_cpu
        else "CPUs where rules hold, wanted 0m of shared CPU, available too few"
    )
    assert placed(engine, soft) == "1,4-5"
    (told,) = engine.decisions[soft.id].unmet
    assert told.endswith(f"it wants pool NUMA node #1, which was not free ({short})")


def test_who_asks_for_nothing_and_insists_on_nothing_is_on_the_reserved_cpus_at_last() -> None:
    engine = engine_of("socket:1 numa:2 core:2 mem:4G")
    placed(engine, container_of("owner", 3))
    soft = container_of("soft", 0, annotations=in_node(1))
    assert placed(engine, soft) == "0"
    (told,) = engine.decisions[soft.id].unmet
    assert told.endswith("it wants pool NUMA node #1")


def test_who_is_driven_out_by_one_that_runs_already_is_told_beside_whom_it_is() -> None:
    """Its socket has no other cpu, and all others are in that of whom it must not be with."""
    engine = engine_of("socket:2 core:2 mem:4G")
    there = {"pool-name.pinfold.dev/pod": "socket #1"}
    owner = container_of("owner", 0.1, apart(term("socket", "guest")), fails=True)
    guest = container_of("guest", 0, annotations=there)
    assert placed(engine, container_of("full", 1, annotations=there)) == "2"
    assert (placed(engine, owner), placed(engine, guest)) == ("1", "3")
    begun = container_of("begun", 1)
    decision = engine.adopt(replace(begun, cpus=CpuSet.of(3), mems=NodeSet.of(1)))
    engine.check()
    assert [(one.container_id, str(one.after.cpus)) for one in decision.changes] == [
        (guest.id, "1")
    ]
    told = (*engine.decisions[owner.id].unmet, *engine.decisions[guest.id].unmet)
    assert any("in one socket with default/guest/main" in one for one in told), told


def test_whose_foe_is_driven_out_by_one_that_runs_already_is_told_no_more() -> None:
    engine = engine_of("socket:3 core:2 mem:4G")
    there = {"pool-name.pinfold.dev/pod": "socket #2"}
    noisy = container_of("noisy", 0, annotations=there)
    shy = container_of("shy", 1, apart(term("socket", "noisy")))
    assert placed(engine, noisy) == "4-5"
    engine.adopt(replace(shy, cpus=CpuSet.of(4), mems=NodeSet.of(2)))
    assert engine.decisions[shy.id].unmet
    begun = container_of("begun", 1)
    engine.adopt(replace(begun, cpus=CpuSet.of(5), mems=NodeSet.of(2)))
    engine.check()
    assert cpus(engine, noisy) == "1-3"
    assert engine.decisions[shy.id].unmet == ()


def test_who_can_be_nowhere_without_breaking_a_rule_breaks_no_other_one() -> None:
    """Far cannot be apart from it anywhere, so that its rule counts no more; that of alone does."""
    engine = engine_of("socket:2 numa:1 core:3 mem:4G")
    owner = container_of("owner", 3)
    assert placed(engine, owner) == "3-5"
    far = container_of("far", 0.5, apart(term("socket", "share")))
    alone = container_of("alone", 0.5, apart(term("core", "share"), term("core", "far")))
    assert [placed(engine, one) for one in (far, alone)] == ["1-2", "1"]
    engine.stop(owner.id)
    share = container_of("share", 0.25)
    assert placed(engine, share) == "3-5"
    assert placed(engine, replace(owner, id=ContainerId("owner-again"))) == "3-5"
    assert cpus(engine, share) == "2"
    assert engine.decisions[alone.id].unmet == ()
    (told,) = engine.decisions[far.id].unmet
    assert told.startswith("anti-affinity at socket to app=share")
    engine.check()


@pytest.mark.parametrize("many", [1, 70])
def test_whoever_drives_others_out_of_a_domain_spreads_over_it_alone(many: int) -> None:
    """Before it came the domain held one that its rule counts, and another domain none."""
    engine = engine_of("socket:1 core:4 mem:4G")
    placed(engine, container_of("other", 1, app="other"))
    sharers = [container_of(f"sharer{number}", 0.01, app="web") for number in range(many)]
    for one in sharers:
        placed(engine, one)
    even = {"topologySpread": [{**term("core", "web"), "maxSkew": 1}]}
    assert placed(engine, owner := container_of("owner", 1, even, app="web")) == "2"
    assert {cpus(engine, one) for one in sharers} == {"3"}
    assert engine.decisions[owner.id].unmet == ()


def test_whoever_drives_others_out_of_a_domain_is_told_where_it_is_still_too_full() -> None:
    engine = engine_of("socket:1 cluster:3 core:2 mem:4G")
    placed(engine, container_of("other", 1, app="other"))
    for number in (1, 2):
        placed(engine, container_of(f"sharer{number}", 0.1, app="web"))
    even = {"topologySpread": [{**term("cluster", "web"), "maxSkew": 1}]}
    assert placed(engine, owner := container_of("owner", 1, even, app="web")) == "2"
    assert [one.split(" of ")[0] for one in engine.decisions[owner.id].unmet] == [
        "spread over cluster, at most 1 apart: app=web (affinity.pinfold.dev/pod:1)"
    ]

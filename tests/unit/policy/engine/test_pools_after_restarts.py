"""Rules about pools that do not hold at containers which run already, without a state file."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    IGNORED,
    apart,
    container_of,
    cpus,
    engine_of,
    placed,
    term,
)

NODES = "socket:2 numa:2 core:2 mem:4G"
"""NUMA nodes of two cpus each: 0 (reserved) and 1, 2-3, 4-5, 6-7."""


def named(pool: str) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": pool}


def selected(key: str, value: str) -> dict[str, object]:
    match = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {"poolAffinity": {IGNORED: {"nodeSelectorTerms": match}}}


def listed(container: Container, cpus: str) -> Container:
    return replace(container, cpus=CpuSet.parse(cpus))


@pytest.mark.parametrize(
    ("container", "cpus", "wanted"),
    [
        pytest.param(
            container_of("one", 1, annotations=named("NUMA node #2"), fails=True),
            "2",
            "pool-name 'NUMA node #2' of default/one/main: it wants pool NUMA node #2",
            id="a pool that insists",
        ),
        pytest.param(
            container_of("one", 0.5, annotations=named("NUMA node #2")),
            "2-3",
            "pool-name 'NUMA node #2' of default/one/main: it wants pool NUMA node #2",
            id="a pool that gives way",
        ),
        pytest.param(
            container_of("one", 1, annotations=named("attic")),
            "2",
            "pool-name 'attic' of default/one/main: it wants pool attic, which this machine lacks",
            id="a pool that is not there",
        ),
    ],
)
def test_a_pool_that_is_named_and_missed_is_told_after_a_restart(
    container: Container, cpus: str, wanted: str
) -> None:
    engine = engine_of(NODES)
    (decision,) = engine.synchronize([listed(container, cpus)]).decisions
    assert str(decision.pinning.cpus) == cpus
    (unmet,) = decision.unmet
    assert unmet.endswith(wanted)


@pytest.mark.parametrize(
    ("container", "pool"),
    [
        pytest.param(container_of("one", 1, annotations=named("socket #1")), "socket #1", id="own"),
        pytest.param(
            container_of("one", 0.5, annotations=named("socket #1")), "socket #1", id="shared"
        ),
        pytest.param(
            container_of("one", 0, annotations=named("socket #1")), "socket #1", id="nothing"
        ),
        pytest.param(container_of("one", 1, annotations=named("root")), "root", id="all"),
    ],
)
def test_a_container_inside_the_pool_that_it_names_breaks_nothing_after_a_restart(
    container: Container, pool: str
) -> None:
    engine = engine_of(NODES)
    placed(engine, container)
    assert engine.decisions[container.id].unmet == ()
    pinning = engine.pinning(container.id)
    assert pinning is not None
    again: Engine = engine_of(NODES)
    (decision,) = again.synchronize(
        [replace(container, cpus=pinning.cpus, mems=pinning.mems)]
    ).decisions
    assert decision.pinning == pinning
    assert decision.unmet == (), (pool, decision.pool)


def test_labels_of_pools_are_for_who_comes_and_ignored_during_execution() -> None:
    engine = engine_of(NODES)
    container = container_of("one", 1, selected("socket", "1"))
    (decision,) = engine.synchronize([listed(container, "2")]).decisions
    assert decision.unmet == ()


@pytest.mark.parametrize("group", ["", "blue"], ids=["alone", "in a group"])
def test_who_was_lent_the_cpus_of_a_socket_without_others_comes_no_nearer_for_that(
    group: str,
) -> None:
    """All cpus of its socket are reserved, so that what it is left later is the other one's."""
    engine = engine_of("socket:2 core:4 mem:4G", reserved="cpuset:0-3")
    red = {"group.pinfold.dev/pod": "red"}
    rules = apart(term("core", "kept"))
    firm = listed(container_of("firm", 2, rules, fails=True, annotations=red), "4-5")
    blue = {"group.pinfold.dev/pod": group} if group else {}
    kept = listed(container_of("kept", 0, annotations=blue), "0-3")
    gone = listed(container_of("gone", 1), "7")
    # Nobody pinned it, and so the cpus of `firm` seem to be shared.
    began = listed(container_of("began", 0), "0-6")
    found = engine.synchronize([firm, kept, gone, began])
    assert not any(one.unmet for one in found.decisions)
    assert cpus(engine, kept) == "0-3"
    engine.stop(gone.id)
    engine.remove(gone.id)
    assert [cpus(engine, one) for one in (firm, kept)] == ["4-7", "0-3"]
    engine.check()


@pytest.mark.parametrize("told", ["4-5", "4-7"])
@pytest.mark.parametrize("group", ["", "blue"], ids=["alone", "in a group"])
def test_who_was_lent_reserved_cpus_grows_to_none_of_a_wider_pool_where_a_rule_would_break(
    group: str, told: str
) -> None:
    """Others have all of its socket, so that what it is left next is the other one's."""
    engine = engine_of("socket:2 core:4 mem:4G")
    owners = [listed(container_of(f"owner-{one}", 1), str(one)) for one in (1, 2, 3)]
    rules = apart(term("core", "kept"))
    firm = listed(container_of("firm", 2, rules, fails=True, shares=True), told)
    blue = {"group.pinfold.dev/pod": group} if group else {}
    kept = listed(container_of("kept", 0, annotations=blue), "0")
    running = [replace(one, mems=NodeSet.of(0)) for one in (*owners, firm, kept)]
    found = engine.synchronize(running)
    assert found.changes == ()
    assert not any(one.unmet for one in found.decisions)
    # As memory runs short there everybody in that socket is told of more memory nodes.
    engine.observe_memory({0: 2**20, 1: 4 * GIB})
    engine.check()
    left = {"4-5": "6-7", "4-7": "0"}[told]
    assert [cpus(engine, one) for one in (firm, kept)] == [told, left]
    engine.remove(owners[0].id)
    assert "1" in cpus(engine, kept)
    assert cpus(engine, firm) == told
    engine.check()


def test_who_insists_on_a_pool_that_others_have_keeps_the_reserved_cpus_of_that() -> None:
    engine = engine_of("socket:2 core:4 mem:4G")
    owners = [listed(container_of(f"owner-{one}", 1), str(one)) for one in (1, 2, 3)]
    kept = listed(container_of("kept", 0, annotations=named("socket #0"), fails=True), "0")
    running = [replace(one, mems=NodeSet.of(0)) for one in (*owners, kept)]
    assert engine.synchronize(running).changes == ()
    engine.observe_memory({0: 2**20, 1: 4 * GIB})
    assert cpus(engine, kept) == "0"
    engine.remove(owners[0].id)
    engine.check()
    assert cpus(engine, kept) == "1"
    assert engine.decisions[kept.id].unmet == ()

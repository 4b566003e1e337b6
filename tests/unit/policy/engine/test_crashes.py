"""Containers that crash and are back with nobody new in between: each has its place again."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.placing.restart import RESTARTED
from tests.unit.policy.engine.ruled_pods import (
    NODES,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)


def again(container: Container) -> Container:
    return replace(container, id=ContainerId(f"{container.id}-1"))


def back(engine: Engine, container: Container) -> str:
    """The cpus of the next instance of a container, which ended in its place."""
    found = placed(engine, again(container))
    assert engine.decisions[again(container).id].decided_by == RESTARTED
    return found


def test_who_grew_onto_the_cpu_of_one_that_crashed_has_others_that_it_was_promised() -> None:
    """One cpu is kept for it, and is cpu 1 of those that it has meanwhile."""
    engine = engine_of("socket:1 core:4 mem:8G")
    it, shy = container_of("it", 1), container_of("shy", 0, apart(term("core", "loud")))
    assert [placed(engine, one) for one in (it, container_of("loud", 1), shy)] == ["1", "2", "3"]
    engine.stop(it.id)
    assert cpus(engine, shy) == "1,3"
    assert back(engine, it) == "1"
    assert cpus(engine, shy) == "3"


@pytest.mark.parametrize("is_own", [True, False])
def test_a_rule_that_may_break_and_did_not_hold_keeps_nobody_from_its_cpus(is_own: bool) -> None:
    """There is room by now where it would hold."""
    engine = engine_of(NODES)
    rules = apart(term("socket", "foe"))
    far = [
        container_of(
            f"far{node}", 4, annotations={"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        )
        for node in (2, 3)
    ]
    foe = container_of("foe", 1, None if is_own else apart(term("socket", "it")))
    it = container_of("it", 1, rules if is_own else None)
    for one in (*far, foe, it):
        placed(engine, one)
    had = cpus(engine, it)
    engine.stop(far[0].id)
    engine.remove(far[0].id)
    engine.stop(it.id)
    assert back(engine, it) == had
    assert engine.decisions[again(it).id].unmet


def test_rules_that_did_not_hold_between_two_keep_neither_from_its_cpus() -> None:
    """Of which the other one was gone when the second one ended."""
    engine = engine_of(NODES)
    name = {"pool-name.pinfold.dev/pod": "NUMA node #2"}
    full = container_of("full", 4, annotations=name)
    rest = container_of("rest", 4, annotations={"pool-name.pinfold.dev/pod": "NUMA node #3"})
    it, foe = container_of("it", 1, apart(term("socket", "foe"))), container_of("foe", 1)
    had = [placed(engine, one) for one in (full, rest, foe, it)]
    engine.stop(full.id)
    engine.remove(full.id)
    for one in (foe, it):
        engine.stop(one.id)
    assert [back(engine, one) for one in (foe, it)] == had[2:]


def test_who_grew_to_one_that_crashed_makes_way_again_though_another_never_did() -> None:
    """The rule that may break did not hold beside that other one, and does beside this one."""
    engine = engine_of("socket:1 numa:4 core:2 thread:2 mem:2G")
    fillers = [
        container_of(
            f"full{node}", size, annotations={"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        )
        for node, size in ((0, 3), (1, 4), (2, 4))
    ]
    narrow = {"unlimited-burstable.resource-policy.nri.io/pod": "numa"}
    near = container_of("near", 0.5, app="foe", annotations=narrow)
    wide = container_of("wide", 4.5, app="foe")
    it = container_of("it", 2, apart(term("numa", "foe")))
    for one in (*fillers, near, it):
        placed(engine, one)
    for one in fillers:
        engine.stop(one.id)
        engine.remove(one.id)
    had = cpus(engine, it)
    assert (had, placed(engine, wide)) == ("12-13", "1-11")
    engine.stop(it.id)
    assert cpus(engine, wide) == "1-15"
    assert back(engine, it) == had
    assert cpus(engine, wide) == "1-11"


def test_who_grew_as_one_ended_and_ends_too_is_back_beside_it_where_a_rule_wants_it() -> None:
    """A rule that may break, which held between the two until they crashed together."""
    engine, it, wide = kept_apart()
    for one in (it, wide):
        engine.stop(one.id)
    assert [back(engine, one) for one in (it, wide)] == ["4-5", "1-3,8-15"]


def test_who_is_back_and_has_to_stay_near_another_grows_to_none_that_has_ended() -> None:
    """It would not make way for that one once more, so it waits until that one is forgotten."""
    engine, it, wide = kept_apart(fails=True)
    assert placed(engine, container_of("friend", 1, near(term("socket", "wide")))) == "10"
    engine.stop(wide.id)
    assert back(engine, wide) == "1-3,8-9,11-15"
    engine.stop(it.id)
    assert cpus(engine, again(wide)) == "1-3,8-9,11-15"
    engine.remove(wide.id)
    assert cpus(engine, again(wide)) == "1-3,8-9,11-15"
    assert back(engine, it) == "4-5"
    engine.stop(again(it).id)
    engine.remove(again(it).id)
    engine.remove(it.id)
    assert cpus(engine, again(wide)) == "1-9,11-15"


def test_who_never_made_way_for_one_that_crashed_stays_where_it_is_though_it_could_by_now() -> None:
    """What one has that is back others may wait for, who ended with it."""
    engine = engine_of(NODES)
    fillers = [
        container_of(
            f"full{node}", size, annotations={"pool-name.pinfold.dev/pod": f"NUMA node #{node}"}
        )
        for node, size in ((0, 3), (1, 4))
    ]
    wide = {"unlimited-burstable.resource-policy.nri.io/pod": "system"}
    foe = container_of("foe", 0.5, annotations=wide)
    it = container_of("it", 1, apart(term("socket", "foe")))
    for one in (*fillers, foe, it):
        placed(engine, one)
    for one in fillers:
        engine.stop(one.id)
        engine.remove(one.id)
    had = cpus(engine, it), cpus(engine, foe)
    engine.stop(it.id)
    assert (back(engine, it), cpus(engine, foe)) == had
    assert engine.decisions[again(it).id].unmet


def kept_apart(*, fails: bool = False) -> tuple[Engine, Container, Container]:
    """One on NUMA node #1, and another that shares all others, as a rule of the first one wants."""
    engine = engine_of("socket:1 numa:4 core:2 thread:2 mem:2G")
    it = container_of("it", 2, apart(term("numa", "wide")), fails=fails)
    wide = container_of("wide", 4.5)
    assert [placed(engine, one) for one in (it, wide)] == ["4-5", "1-3,8-15"]
    return engine, it, wide


def test_who_has_less_than_it_wishes_takes_no_cpus_of_one_that_crashed_with_it() -> None:
    engine = engine_of("socket:1 core:6 mem:8G")
    wish = {"exclusive.pinfold.dev/pod": "3"}
    full, short = container_of("full", 3), container_of("short", 0.5, annotations=wish)
    had = [placed(engine, one) for one in (full, short)]
    assert had == ["1-3", "4-5"]
    for one in (full, short):
        engine.stop(one.id)
    assert back(engine, short) == "1-5"
    assert back(engine, full) == "1-3"
    assert cpus(engine, again(short)) == "4-5"


def test_who_makes_way_for_one_rule_does_so_again_though_another_never_held_beside_it() -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G", "cpuset:0-1")
    first, web = container_of("first", 2), container_of("web", 0.5)
    alone = container_of("alone", 1, apart(term("socket", "web"), term("core", "web")))
    assert (placed(engine, first), placed(engine, web)) == ("2-3", "4-7")
    assert (placed(engine, alone), cpus(engine, web)) == ("4", "6-7")
    engine.remove(first.id)
    engine.stop(alone.id)
    assert cpus(engine, web) == "2-7"
    assert placed(engine, replace(alone, id=ContainerId("again"))) == "4"
    assert cpus(engine, web) == "2-3,6-7"

"""Unmet rules that are told once the daemon is back: those that were, and what began meanwhile."""

import pytest
from msgspec import structs

from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, placed, term

ONE_NODE = "socket:1 core:4 mem:4G"
WEB = container_of("web", 0.5)
ALONE = container_of("alone", 0.5, apart(term("numa", "web")))
TEXT = (
    "anti-affinity at numa to app=web (affinity.pinfold.dev/pod:1) of default/alone/main:"
    " in one NUMA node with default/web/main"
)
AT_WEB = TEXT.replace("with default/web", "with its owner default/alone")


def unmet(engine: Engine, *containers: Container) -> list[tuple[str, ...]]:
    return [engine.decisions[one.id].unmet for one in containers]


def restarted(engine: Engine, *forgotten: Container) -> Engine:
    """Another engine after a restart, which remembers all but some."""
    snapshot, ids = engine.snapshot(), [one.id for one in forgotten]
    again = engine_of(ONE_NODE)
    advice = {one: hint for one, hint in snapshot.advice().items() if one not in ids}
    again.synchronize(snapshot.running(), advice)
    return again


def test_an_owner_that_broke_its_own_rule_tells_it_alone_after_a_restart_too() -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, WEB)
    placed(engine, ALONE)
    assert unmet(engine, WEB, ALONE) == [(), (TEXT,)]
    assert unmet(restarted(engine), WEB, ALONE) == [(), (TEXT,)]
    assert unmet(restarted(restarted(engine)), WEB, ALONE) == [(), (TEXT,)]
    engine, _ = engine.reconfigured(engine.config)
    assert unmet(engine, WEB, ALONE) == [(), (TEXT,)]


def test_who_came_beside_an_owner_and_its_owner_both_tell_it_after_a_restart() -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, ALONE)
    placed(engine, WEB)
    assert unmet(engine, WEB, ALONE) == [(AT_WEB,), (TEXT,)]
    assert unmet(restarted(engine), WEB, ALONE) == [(AT_WEB,), (TEXT,)]


@pytest.mark.parametrize("forgotten", [(WEB,), (ALONE,), (WEB, ALONE)])
def test_both_tell_of_a_container_that_began_while_nobody_looked(
    forgotten: tuple[Container, ...],
) -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, WEB)
    placed(engine, ALONE)
    assert unmet(restarted(engine, *forgotten), WEB, ALONE) == [(AT_WEB,), (TEXT,)]


def test_both_tell_a_rule_that_was_told_nobody_before() -> None:
    """It is one of a configuration that was loaded while the daemon was away."""
    engine = engine_of(ONE_NODE)
    placed(engine, container_of("alone", 0.5))
    placed(engine, WEB)
    listed = [structs.replace(ALONE, cpus=one.cpus) for one in engine.snapshot().running()[:1]]
    listed += engine.snapshot().running()[1:]
    again = engine_of(ONE_NODE)
    again.synchronize(listed, engine.snapshot().advice())
    assert unmet(again, WEB, ALONE) == [(AT_WEB,), (TEXT,)]


def test_who_told_more_than_is_remembered_tells_all_that_does_not_hold() -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, ALONE)
    placed(engine, WEB)
    advice = dict(engine.snapshot().advice())
    assert not advice[WEB.id].is_unmet_cut
    advice[WEB.id] = structs.replace(advice[WEB.id], unmet=(), is_unmet_cut=True)
    again = engine_of(ONE_NODE)
    again.synchronize(engine.snapshot().running(), advice)
    assert unmet(again, WEB, ALONE) == [(AT_WEB,), (TEXT,)]


def test_advice_says_whether_all_that_was_told_is_remembered() -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, WEB)
    grant, pool = engine.grants[WEB.id], engine.tree.root
    assert not Advice.of(grant, pool, ["x" * 4000]).is_unmet_cut
    assert Advice.of(grant, pool, ["x" * 4000, "y" * 4000]).is_unmet_cut
    assert Advice.of(grant, pool, ["\x1b"]).is_unmet_cut


def test_others_are_named_as_they_were_in_whatever_order_a_runtime_lists_them() -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, ALONE)
    others = [
        structs.replace(container_of(f"web{number}", 0.5, app="web"), id=ContainerId(f"{number}"))
        for number in range(3)
    ]
    for one in others:
        placed(engine, one)
    before = unmet(engine, ALONE, *others)
    assert [text.count("default/web") for text in before[0]] == [3], "one text names all that came"
    again = engine_of(ONE_NODE)
    again.synchronize(engine.snapshot().running()[::-1], engine.snapshot().advice())
    assert unmet(again, ALONE, *others) == before


def test_who_wanted_to_be_with_one_that_is_gone_tells_no_name_of_it() -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G")
    web, friend = container_of("web", 2), container_of("friend", 3, near(term("core", "web")))
    assert (placed(engine, web), placed(engine, friend)) == ("2-3", "1,4-5")
    assert engine.decisions[friend.id].unmet[0].endswith("with default/web/main")
    engine.stop(web.id)
    assert engine.decisions[friend.id].unmet[0].endswith("a container that the rule is about")


@pytest.mark.parametrize("name", ["a and b", "a with b", "a, b", "a and 9 more", " and ", ": "])
def test_names_that_only_other_clients_of_a_runtime_give_are_told_like_all_others(
    name: str,
) -> None:
    engine = engine_of(ONE_NODE)
    odd, other = (structs.replace(WEB, id=ContainerId(one), name=one) for one in (name, "other"))
    for one in (odd, other, ALONE):
        placed(engine, one)
    assert unmet(engine, ALONE)[0] == (TEXT.replace("web/main", f"web/{name}, default/web/other"),)
    engine.stop(other.id)
    assert unmet(engine, ALONE)[0] == (TEXT.replace("web/main", f"web/{name}"),)


def test_one_more_than_there_are_texts_for_is_told_as_after_a_restart() -> None:
    engine = engine_of(ONE_NODE)
    placed(engine, ALONE)
    for number in range(17):
        placed(engine, container_of(f"web{number}", 0, app="web"))
    engine.compact(ALONE.id)
    (before,) = unmet(engine, ALONE)
    assert [text.rpartition(" and ")[2] for text in before] == ["13 more"]
    assert unmet(restarted(engine), ALONE) == [before]


def test_all_that_is_told_of_one_with_usual_names_is_remembered() -> None:
    apps = [f"workshop-{number}" for number in range(16)]
    wide = container_of("wide", 0.1, apart(*(term("numa", app) for app in apps)))
    engine = engine_of(ONE_NODE)
    placed(engine, wide)
    for app in apps:
        placed(engine, container_of(app, 0, app=app))
    assert not engine.snapshot().advice()[wide.id].is_unmet_cut
    assert unmet(restarted(engine), wide) == unmet(engine, wide)

"""Notes about preferred rules as of now, whatever was told when a container came."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.decision import KEPT, carried_over
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.roster import PACKED_TOGETHER
from pinfold.policy.inquiry.current_notes import current_notes
from pinfold.policy.model.container import Container
from tests.unit.policy.engine.ruled_pods import (
    container_of,
    cpus,
    engine_of,
    placed,
    prefer,
    term,
)
from tests.unit.topology.model.offline import without

SPEC = "socket:2 core:2 thread:2 mem:4G"
PARTNER = container_of("partner", 1)
OWNER = container_of("owner", 1, prefer(50, term("core", "partner")))


def notes(engine: Engine, one: Container, *told: str) -> tuple[str, ...]:
    return current_notes(engine.snapshot(), one.id, told)


def test_a_preference_that_is_not_met_since_a_cpu_went_offline_is_told() -> None:
    engine = engine_of(SPEC)
    assert [placed(engine, one) for one in (PARTNER, OWNER)] == ["4", "5"]
    assert notes(engine, OWNER) == ()
    partner = engine.grants[PARTNER.id].exclusive
    engine, _ = engine.reconfigured(engine.config, without(engine.machine, partner))
    assert cpus(engine, OWNER) == "5"
    (note,) = notes(engine, OWNER)
    assert note.endswith("in no core with default/partner/main")


def test_a_preference_that_is_met_by_now_is_told_no_more_but_why_it_was_moved_is() -> None:
    engine = engine_of(SPEC)
    placed(engine, OWNER)
    placed(engine, PARTNER)
    moved = "it was moved to mend something else"
    assert notes(engine, OWNER, moved, "core: in no core with somebody") == (moved,)


@pytest.mark.parametrize("happens", ["a reload", "many come"])
def test_by_which_weights_a_container_was_placed_may_be_forgotten(happens: str) -> None:
    """Decisions are kept in fewer bytes after a while; older engines' have none."""
    engine = engine_of("socket:2 core:4 mem:4G")
    rule = "{scope: {operator: AlwaysTrue}, match: {key: name, operator: Exists}, weight: 5}"
    drawn = {"pinfold.dev/affinity": f"main: [{rule}]", "pool-name.pinfold.dev/pod": "socket #1"}
    friend = container_of("friend", 1, annotations={"pool-name.pinfold.dev/pod": "socket #0"})
    owner = container_of("owner", 1, annotations=drawn)
    assert [placed(engine, one) for one in (friend, owner)] == ["1", "4"]
    note = "affinity: in no one pool with default/friend/main"
    assert engine.note(owner.id) == notes(engine, owner, note) == (note,)
    if happens == "a reload":
        engine, _ = engine.reconfigured(engine.config)
    for number in range(2 * PACKED_TOGETHER if happens == "many come" else 0):
        engine.compact(owner.id)
        passing = container_of(f"passing{number}")
        placed(engine, passing)
        engine.compact(passing.id)
        engine.remove(passing.id)
    assert not engine.decisions[owner.id].weights
    assert notes(engine, owner, note) == (note,)


def test_of_who_holds_nothing_what_was_told_stays() -> None:
    engine = engine_of(SPEC)
    assert notes(engine, OWNER, "as it was") == ("as it was",)


@pytest.mark.parametrize("comes_first", [True, False])
def test_who_is_drawn_by_a_rule_of_another_one_alone_is_told_it(*, comes_first: bool) -> None:
    """Also after a reload, which knows no more what drew it as it was placed."""
    rule = "{scope: {key: name, operator: Exists}, match: {key: name, operator: In, values: [db]}"
    text = {"resource-policy.nri.io/affinity": f"main: [{rule}, weight: 5, symmetric: true}}]"}
    web, db = container_of("web", 3, annotations=text), container_of("db", 3, main="db")
    engine = engine_of("socket:2 numa:1 core:4 mem:4G")
    for one in (db, web) if comes_first else (web, db):
        placed(engine, one)
        engine.note(one.id)
    reloaded, _ = engine.reconfigured(engine.config)
    for some in (engine, reloaded):
        told = some.decisions[db.id].notes
        assert notes(some, db, *told) == ("affinity: in no one pool with default/web/main",)


def test_why_a_container_was_moved_is_told_after_a_reload() -> None:
    engine = engine_of(SPEC)
    placed(engine, OWNER)
    decision = engine.decisions[OWNER.id]
    moved = replace(decision, notes=("it was moved to mend something else",))
    kept = replace(decision, decided_by=KEPT, notes=())
    assert carried_over(kept, moved, None, is_same_tree=True).notes == moved.notes
    assert carried_over(kept, moved, None, is_same_tree=False).notes == moved.notes

"""Who gives up cpus keeps those on which others must be with it."""

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Resources
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)

MACHINE = "socket:2 core:3 thread:2 mem:4G"
"""Cores 0-1, 2-3, 4-5 (NUMA node 0), 6-7, 8-9, 10-11 (NUMA node 1)."""
HERE = {"pool-name.pinfold.dev/pod": "socket #1"}
PARTNER = container_of("partner", 3, annotations=HERE)


def _resized(engine: Engine, count: int) -> str:
    wanted = Resources(
        cpu_request_milli=1000 * count,
        cpu_limit_milli=1000 * count,
        memory_request_bytes=GIB // 64,
        memory_limit_bytes=GIB // 64,
    )
    engine.update(PARTNER.id, wanted)
    engine.check()
    return cpus(engine, PARTNER)


def _node(*levels: str) -> Engine:
    """The partner on 6-8, and beside it owners that must be with it."""
    engine = engine_of(MACHINE)
    assert placed(engine, PARTNER) == "6-8"
    for number, level in enumerate(levels):
        rules = near(term(level, "partner"))
        owner = container_of(f"owner-{number}", 1, rules, fails=True, app=f"owner-{number}")
        placed(engine, owner)
    return engine


def test_without_owners_the_partner_keeps_a_whole_core() -> None:
    assert _resized(_node(), 2) == "6-7"


def test_who_gives_up_cpus_keeps_one_in_the_core_of_whom_must_be_with_it() -> None:
    engine = _node("core")
    (owner,) = [one for one in engine.containers.values() if one.id != PARTNER.id]
    assert cpus(engine, owner) == "9"
    assert _resized(engine, 2) in {"6,8", "7-8"}
    assert _resized(engine, 1) == "8"
    assert all(not one.unmet for one in engine.decisions.values())


def test_a_rule_at_a_wider_level_changes_nothing() -> None:
    assert _resized(_node("numa"), 2) == "6-7"


def test_another_that_would_do_leaves_the_partner_free() -> None:
    engine = _node("core")
    friend = container_of("second", 0.1, annotations=HERE, labels={"app": "partner"})
    assert placed(engine, friend) == "10-11"
    assert _resized(engine, 2) in {"6,8", "7-8"}, "that one is in another core"


def test_many_owners_of_a_rule_about_somebody_else_change_nothing() -> None:
    engine = engine_of(MACHINE)
    placed(engine, PARTNER)
    placed(
        engine, container_of("other", 0.1, annotations={"pool-name.pinfold.dev/pod": "socket #0"})
    )
    for number in range(300):
        rules = near(term("socket", "other"))
        engine.create(container_of(f"crowd-{number}", 0, rules, app="crowd"))
    owner = container_of("owner", 1, near(term("core", "partner")), fails=True)
    assert placed(engine, owner) == "9"
    assert _resized(engine, 2) in {"6,8", "7-8"}


@pytest.mark.parametrize("level", ["core", "numa", "socket"])
def test_who_is_beside_very_many_owners_is_not_looked_for_among_all_for_each_of_them(
    level: str,
) -> None:
    engine = engine_of("socket:2 numa:2 core:32 thread:2 mem:4G")
    partner = container_of("partner", 3)
    placed(engine, partner)
    for number in range(120):
        rules = near(term(level, "partner"))
        engine.create(container_of(f"owner-{number}", number % 3 / 2, rules, app="partner"))
    wanted = replace(partner.resources, cpu_request_milli=2000, cpu_limit_milli=2000)
    modules = called_modules(lambda: engine.update(partner.id, wanted))
    engine.check()
    assert modules.count("pinfold.topology.sets.bits") < 30


@pytest.mark.parametrize("count", [3, 4])
def test_who_keeps_or_grows_is_asked_nothing(count: int) -> None:
    engine = _node("core")
    assert _resized(engine, count).startswith("6-8")


def test_what_is_kept_for_others_was_not_given_back_before() -> None:
    """What it got last goes first, but for the cpu that somebody needs."""
    engine = _node("core")
    assert _resized(engine, 5) == "6-8,10-11"
    assert _resized(engine, 3) == "6-8"
    assert _resized(engine, 2) in {"6,8", "7-8"}

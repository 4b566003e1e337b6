"""Pools that are full cost a newcomer no look at the rules that would break there."""

from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.grant import Grant, Refusal
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    engine_of,
    near,
    placed,
    term,
)

_BREAKING = "pinfold.policy.placing.openings.breaking"
_NARROWING = "pinfold.policy.placing.openings.narrowing"


def _filled(nodes: int) -> Engine:
    """A machine of eight NUMA nodes, in so many of which all cpus but one are promised to share."""
    engine = engine_of("socket:1 numa:8 core:8 mem:1G")
    for number in range(8):
        there = {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}
        cpu = 6.5 if number < nodes else 0.5
        placed(engine, container_of(f"filler{number}", cpu - (not number), annotations=there))
    return engine


def _decided(engine: Engine, cpu: float) -> tuple[Decision, list[str]]:
    """The decision about a newcomer whose rules break wherever it is, and what is called for it."""
    some = [term("core", f"filler{number}") for number in range(8)]
    rules = {**near(term("core", "nobody")), **apart(*some)}
    told: list[Decision] = []
    modules = called_modules(lambda: told.append(engine.create(container_of("it", cpu, rules))))
    return told[0], modules


def test_no_place_where_the_fewest_rules_break_is_looked_for_where_nothing_is_left() -> None:
    decision, modules = _decided(_filled(8), 64)
    assert isinstance(decision.result, Refusal)
    assert not {_BREAKING, _NARROWING} & set(modules)


def test_pools_with_too_few_cpus_are_passed_over_where_the_fewest_rules_break() -> None:
    looks: list[int] = []
    for nodes in (2, 7):
        decision, modules = _decided(_filled(nodes), 4)
        assert isinstance(decision.result, Grant)
        assert decision.unmet
        looks.append(modules.count("pinfold.policy.placing.openings.part_ranks"))
    assert looks[1] <= looks[0], looks


def test_what_there_was_without_rules_is_asked_with_no_look_at_each_core_that_they_keep() -> None:
    few, many = (_calls_of_a_refusal(cores) for cores in (20, 80))
    assert many < few + 60


def _calls_of_a_refusal(cores: int) -> int:
    """Of one for whom there are too few, as owners need a cpu shared in each of so many cores."""
    engine = engine_of(f"numa:1 core:{cores} thread:2 mem:64G")
    placed(engine, container_of("friend", 0.1))
    owners = [container_of(f"it{n}", 2.5, near(term("core", "friend"))) for n in range(10)]
    for one in owners:
        placed(engine, one)
        assert len(engine.grants[one.id].beside) == cores
    told: list[Decision] = []
    newcomer = container_of("newcomer", 2 * cores - 20)
    modules = called_modules(lambda: told.append(engine.create(newcomer)))
    assert isinstance(told[0].result, Refusal)
    return len(modules)

"""Texts of unmet rules that stay as they were told, as rows."""

import pytest
from msgspec.structs import replace

from pinfold.policy.model.container import ContainerId
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.judging.unmet_texts import as_told, joined, with_told_obstacles
from pinfold.topology.model.machine import Level
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, term


def rule(text: str, *others: str, wanted: str = "") -> Restriction:
    return Restriction(
        text=text,
        owner="default/me/main",
        owner_id=ContainerId("me"),
        can_break=True,
        wanted=wanted,
        blockers=tuple(container_of(name) for name in others),
        level=Level.NUMA,
    )


def text(name: str, others: str) -> str:
    return f"{name} of default/me/main: in one NUMA node with {others}"


def paths(names: str) -> str:
    return ", ".join(f"default/{name}/main" for name in names)


@pytest.mark.parametrize(
    ("told", "broken", "texts"),
    [
        pytest.param((), [rule("x", "a", "b")], (text("x", paths("ab")),), id="nothing was told"),
        pytest.param(
            (text("x", paths("ba")),),
            [rule("x", "a", "b")],
            (text("x", paths("ba")),),
            id="the same others in another order",
        ),
        pytest.param(
            (text("x", paths("a")), text("y", paths("c")), text("x", paths("b"))),
            [rule("y", "c"), rule("x", "a", "b")],
            (text("x", paths("ab")), text("y", paths("c"))),
            id="each of the others by himself, as earlier versions told it",
        ),
        pytest.param(
            (text("x", paths("ab")), text("y", paths("c"))),
            [rule("x", "b", "d"), rule("y", "c")],
            (text("x", paths("bd")), text("y", paths("c"))),
            id="somebody else is in the way",
        ),
        pytest.param(
            (text("x", paths("a")), text("x", paths("b"))),
            [rule("x", "a", "b", "c")],
            (text("x", paths("abc")),),
            id="one more is in the way",
        ),
        pytest.param(
            (text("x", paths("a")), text("y", paths("c"))),
            [rule("z", "a"), rule("y", "c")],
            (text("y", paths("c")), text("z", paths("a"))),
            id="a rule that holds, and one that broke",
        ),
        pytest.param(
            (text("x", paths("dcba") + " and 1 more"),),
            [rule("x", *"abcde")],
            (text("x", paths("dcba") + " and 1 more"),),
            id="more than are named",
        ),
        pytest.param(
            (text("x", paths("dcbf") + " and 1 more"),),
            [rule("x", *"abcde")],
            (text("x", paths("abcd") + " and 1 more"),),
            id="more than are named, and one of those is gone",
        ),
        pytest.param(
            ("x of default/me/main: it wants cpus of a core with b, a",),
            [rule("x", wanted="cpus of a core with a, b")],
            ("x of default/me/main: it wants cpus of a core with b, a",),
            id="what it wants in other words' order",
        ),
        pytest.param(
            ("x of default/me/main: it wants cpus of a core with b",),
            [rule("x", wanted="cpus of a core with a")],
            ("x of default/me/main: it wants cpus of a core with a",),
            id="it wants something else",
        ),
        pytest.param(
            (), [rule("x", "a"), rule("x", "a")], (text("x", paths("a")),), id="written twice"
        ),
    ],
)
def test_what_was_told_stays_while_it_says_the_same(
    told: tuple[str, ...], broken: list[Restriction], texts: tuple[str, ...]
) -> None:
    assert as_told(told, broken) == texts
    assert as_told(texts, broken) == texts


def test_of_rules_that_were_told_what_is_found_is_nothing_new() -> None:
    told, found = text("x", paths("a")), text("y", paths("b"))
    assert joined((told,), (text("x", paths("b")), found)) == (told, found)


@pytest.mark.parametrize(("owner", "is_told"), [("main", True), ("mai", False), ("main2", False)])
def test_a_rule_is_told_by_a_text_of_its_owner_alone(owner: str, is_told: bool) -> None:
    one = replace(rule("x", "a"), owner=f"default/me/{owner}")
    assert one.is_told(["y of default/me/main: it wants z", text("x", paths("a"))]) is is_told
    assert one.is_told_by(text("x", paths("a"))) is is_told
    assert not one.is_told([])


def test_a_rule_of_another_one_says_that_he_is_its_owner() -> None:
    """Whoever is told of it stands in its way: it would seem to be beside anybody else."""
    one, more = (replace(rule("x", *some), is_own=False) for some in ("a", "ab"))
    assert one.unmet_text == text("x", f"its owner {paths('a')}")
    assert more.unmet_text == text("x", f"its owners {paths('ab')}")
    for restriction in (one, more):
        assert as_told([restriction.unmet_text], [restriction]) == (restriction.unmet_text,)
    # As an earlier version told it.
    assert as_told([text("x", paths("a"))], [one]) == (text("x", paths("a")),)
    assert as_told([text("x", f"its owner {paths('b')}")], [one]) == (one.unmet_text,)


def test_who_breaks_the_rule_of_a_resident_and_that_one_are_told_of_each_other() -> None:
    engine = engine_of("socket:1 numa:1 core:4 mem:4G", onUnsatisfiable="degrade")
    for one in (container_of("shy", 0.1, apart(term("socket", "it"))), container_of("it", 0.1)):
        engine.create(one)
    rule_text = "anti-affinity at socket to app=it (affinity.pinfold.dev/pod:1)"
    assert [decision.unmet for decision in engine.decisions.values()] == [
        (f"{rule_text} of default/shy/main: in one socket with default/it/main",),
        (f"{rule_text} of default/shy/main: in one socket with its owner default/shy/main",),
    ]


def test_who_is_not_in_the_pool_that_it_names_is_told_what_that_was_short_of() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G", reservedResources={"cpu": "cpuset:0"})
    name = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    engine.create(container_of("first", 1, annotations=name))
    wide, later = container_of("wide", 3, annotations=name), container_of("later", 1)
    engine.create(wide)
    rule_text = "pool-name 'NUMA node #0' of default/wide/main"
    told = f"{rule_text}: it wants pool NUMA node #0"
    short = "exclusive CPUs, wanted 3, available 2"
    assert engine.decisions[wide.id].unmet == (f"{told}, which was not free ({short})",)
    # What others do afterwards changes nothing of what it was short of.
    engine.create(later)
    engine.remove(later.id)
    assert engine.decisions[wide.id].unmet == (f"{told}, which was not free ({short})",)
    # Nor does it where it changes itself, and stays outside.
    two = replace(wide.resources, cpu_request_milli=2000, cpu_limit_milli=2000)
    assert engine.update(wide.id, two).unmet == (f"{told}, which was not free ({short})",)


def test_a_pool_that_is_not_free_for_the_rule_of_another_one_is_told_with_that_rule() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    name = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    shy = container_of("shy", 1, apart(term("numa", "it")), fails=True, annotations=name)
    it = container_of("it", 1, annotations=name)
    for one in (shy, it):
        engine.create(one)
    (told,) = engine.decisions[it.id].unmet
    assert told == (
        "pool-name 'NUMA node #0' of default/it/main: it wants pool NUMA node #0, which was not"
        " free (anti-affinity at numa to app=it (affinity.pinfold.dev/pod:1) of default/shy/main,"
        " wanted a NUMA node without default/shy/main, available none)"
    )


def test_a_pool_in_which_as_many_rules_break_is_told_with_their_number() -> None:
    engine = engine_of("socket:1 numa:2 core:4 mem:4G")
    name = {"pool-name.pinfold.dev/pod": "NUMA node #0"}
    engine.create(container_of("wolf", 1, annotations=name))
    it = container_of("it", 1, apart(term("numa", "wolf")), annotations=name)
    engine.create(it)
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(
        "pool NUMA node #0, which was not free (1 required rule does not hold there)"
    )


@pytest.mark.parametrize("number", [0, 1])
def test_who_is_in_no_pool_with_its_labels_is_told_what_the_widest_was_short_of(
    number: int,
) -> None:
    engine = engine_of("socket:2 numa:2 core:2 mem:4G", reservedResources={"cpu": "cpuset:0"})
    selector, term = {"pool-selector.pinfold.dev/pod": f"socket={number}"}, f"socket={number}"
    engine.create(container_of("first", 2, annotations=selector))
    it = container_of("it", 3, annotations=selector)
    engine.create(it)
    told = (
        f"a pool with {term} (pool-selector.pinfold.dev/pod) of default/it/main: it wants a pool"
        f" with these labels, which was not free (socket #{number}: exclusive CPUs, wanted 3,"
        f" available {1 + number})"
    )
    assert engine.decisions[it.id].unmet == (told,)
    # What others do afterwards changes nothing of what it was short of.
    engine.create(later := container_of("later", 1))
    engine.remove(later.id)
    assert engine.decisions[it.id].unmet == (told,)


def test_labels_that_no_pool_of_the_machine_has_are_told() -> None:
    engine = engine_of("socket:2 numa:2 core:2 mem:4G")
    selector = {"pool-selector.pinfold.dev/pod": "socket=7"}
    engine.create(it := container_of("it", 1, annotations=selector))
    (told,) = engine.decisions[it.id].unmet
    assert told.endswith(": it wants a pool with these labels, which this machine lacks")


def test_what_a_pool_was_short_of_stays_told_with_its_rule() -> None:
    def named(pool: str) -> Restriction:
        return replace(rule("x", wanted=f"pool {pool}"), closed_pools=frozenset({0}))

    told = "x of default/me/main: it wants pool a, which was not free (memory)"
    near = text("y", paths("b"))
    assert as_told((told,), [named("a")]) == (told,)
    assert as_told((told,), [named("a"), rule("y", "b")]) == (told, near)
    assert as_told((told,), [named("c")]) == ("x of default/me/main: it wants pool c",)
    (kept,) = with_told_obstacles([named("a")], (told,))
    assert kept.unmet_text == told

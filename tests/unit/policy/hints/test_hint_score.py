"""How near pools are to hints, by the table our users' policy has and by our own."""

from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.hints.hint_place import resolve
from pinfold.policy.hints.hint_score import scores
from pinfold.policy.hints.hint_text import hint_of_texts
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.pools.pool_tree import PoolTree
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.text.yaml_fields import Field, read_fields
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

GIVEN = Path(__file__).parents[5] / "shared" / "scenarios" / "given.yaml"


@cache
def tree(spec: str) -> PoolTree:
    machine = machine_from_spec(spec)
    config = Config(reserved_resources=Amounts(cpu="cpuset:0"))
    return build_tree(machine, read_supply(machine, config, CpuPicker(machine)))


def by_name(spec: str, *cpus: str) -> dict[str, tuple[int, int]]:
    hints = [
        Hint(provider=str(number), origin=HintOrigin.TEST, cpus=CpuSet.parse(text))
        for number, text in enumerate(cpus)
    ]
    pools = tree(spec)
    found = scores(pools, hints)
    return {pool.name: pair for pool, pair in zip(pools.pools, found, strict=True)}


def share(hint: Hint, cpus: CpuSet) -> Fraction:
    """What a pool of these cpus has of a hint; on a machine where cpus are nodes and sockets."""
    pools = tree("socket:4 core:1")
    resolved, _ = resolve(hint, machine_from_spec("socket:4 core:1"), "here")
    found = scores(pools, [] if resolved is None else [resolved])
    by_cpus = {pool.cpus: full for pool, (full, _) in zip(pools.pools, found, strict=bool(found))}
    return Fraction(by_cpus.get(cpus, 0), by_cpus.get(pools.root.cpus, 1))


def rows() -> list[object]:
    if not GIVEN.exists():
        reason = "the given tables are not beside the project"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    (document,) = read_fields(GIVEN.read_text(), GIVEN.name)
    elements = document["scenarios"].elements()
    (table,) = [one for one in elements if one["id"].value == "unit-hint-scores"]
    cases = table["cases"].elements()
    return [pytest.param(row, id=f"{row['fn'].text()} {n}") for n, row in enumerate(cases)]


@pytest.mark.parametrize("row", rows())
def test_hints_score_as_given(row: Field) -> None:
    function, written = row["fn"].text(), row["hint"]
    expected = row["expect"].value
    if function == "hint_to_cpus":
        lists = {name.lower(): field.scalar() for name, field in written.entries().items()}
        hint, _ = hint_of_texts("x", "x", **lists)
        resolved, _ = resolve(hint, machine_from_spec("socket:1 core:2"), "here")
        assert ("" if resolved is None else str(resolved.cpus)) == expected
        return
    list_name = {"cpu": "cpus", "numa": "numas", "socket": "sockets"}[function]
    hint, problems = hint_of_texts("x", "x", **{list_name: written.scalar()})
    assert bool(problems) == (written.scalar() == "unparsable")
    match function:
        case "cpu":
            assert share(hint, CpuSet.parse(row["pool_cpus"].scalar())) == expected
        case "numa":
            nodes = [one.integer() for one in row["pool_nodes"].elements()]
            assert (share(hint, CpuSet.collect(nodes)) > 0) == expected
        case _:
            assert (share(hint, CpuSet.of(row["pool_socket"].integer())) > 0) == expected


def test_a_pool_scores_the_share_of_the_cpus_it_has() -> None:
    assert by_name("socket:2 numa:2 core:4", "0-5") == {
        "NUMA node #0": (2, 2),
        "NUMA node #1": (1, 1),
        "socket #0": (3, 3),
        "NUMA node #2": (0, 0),
        "NUMA node #3": (0, 0),
        "socket #1": (0, 0),
        "root": (3, 3),
    }


def test_the_scores_of_all_hints_are_multiplied() -> None:
    found = by_name("socket:2 numa:2 core:2", "0-1", "2-3", "2-3")
    assert found["NUMA node #0"] == (0, 1)
    assert found["NUMA node #1"] == (0, 1)
    assert found["socket #0"] == found["root"] == (1, 1)
    assert found["socket #1"] == (0, 0)


def test_zeros_do_not_hide_how_much_the_other_hints_have() -> None:
    # Of the hints' cpus node 1 has all of one and none of the other, node 0 half of one.
    found = by_name("socket:2 numa:2 core:2", "1-2", "2-3")
    assert found["NUMA node #0"] == (0, 1)
    assert found["NUMA node #1"] == (1, 1)
    assert found["socket #0"] == (2, 2)


def test_dies_of_one_socket_score_apart() -> None:
    found = by_name("socket:1 die:2 cluster:2 core:2", "0-3")
    assert found["die #0/0"] == (1, 1)
    assert found["die #0/1"] == (0, 0)


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        pytest.param("socket:2 numa:2 core:2", [], id="no hint"),
        pytest.param("socket:1 l3:4 core:2", ["0-7"], id="a device of the only NUMA node"),
        pytest.param("socket:2 numa:2 core:2", ["0-7", "0-7"], id="devices near everything"),
        pytest.param("socket:2 numa:2 core:2", [""], id="a hint that was not resolved"),
    ],
)
def test_hints_that_tell_no_pools_apart_do_not_count(spec: str, cpus: list[str]) -> None:
    hints = [Hint(provider="x", origin=HintOrigin.TEST, cpus=CpuSet.parse(one)) for one in cpus]
    assert scores(tree(spec), hints) == ()


def test_hints_that_say_nothing_change_no_score() -> None:
    spec = "socket:2 numa:2 core:2"
    assert by_name(spec, "0-1", "0-7") == by_name(spec, "0-1")

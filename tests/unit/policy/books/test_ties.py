"""Ties of residents: others must be with them, and which of their cpus that takes."""

import pytest

from pinfold.policy.books.ties import is_needed_whole
from pinfold.policy.model.container import ContainerId
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import NODES, container_of, engine_of, near, placed, term


@pytest.mark.parametrize(
    ("cpus", "but", "is_needed"),
    [
        pytest.param("4", None, False, id="it is in one core"),
        pytest.param("4-7", None, True, id="in several cores of one NUMA node"),
        pytest.param("4-7", "core-main", False, id="of which nobody else tells"),
        pytest.param("4-8", "core-main", True, id="in several NUMA nodes as well"),
        pytest.param("4,12", "numa-main", True, id="in a core of each of two"),
    ],
)
def test_a_resident_is_needed_whole_where_others_must_be_with_it_in_one_of_its_domains(
    cpus: str, but: str | None, *, is_needed: bool
) -> None:
    engine = engine_of(NODES)
    placed(engine, it := container_of("it"))
    for level in ("numa", "core"):
        placed(engine, container_of(level, 0.5, near(term(level, "it"))))
    books = engine._allocator.books  # pyright: ignore[reportPrivateUsage]
    owner = None if but is None else ContainerId(but)
    mask = CpuSet.parse(cpus).mask
    assert is_needed_whole(it, mask, books.standing, books.domains, owner) is is_needed

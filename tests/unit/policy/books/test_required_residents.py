"""Required residents: those that others must be with, asked about one after another."""

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.books.required_residents import RequiredResidents
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.topology.made.spec import machine_from_spec
from tests.bench.hostile_terms import near, text

MACHINE = machine_from_spec("socket:2 core:16 thread:2 mem:64G")


def resident(name: str, app: str, wanted: str = "") -> Container:
    term = {"topologyKey": "socket", "labelSelector": {"matchLabels": {"app": wanted}}}
    pod = Pod(
        id=PodId(name),
        name=name,
        namespace="default",
        labels={"app": app},
        annotations=dict(text(near([term]))) if wanted else {},
        qos=QosClass.BURSTABLE,
    )
    resources = Resources(cpu_request_milli=100)
    return Container(id=ContainerId(name), name="c", pod=pod, resources=resources)


RESIDENTS = (
    resident("db-0", "db"),
    resident("db-1", "db"),
    resident("web", "web", wanted="db"),
    resident("lone", "lone", wanted="lone"),
    resident("pair-0", "pair", wanted="pair"),
    resident("pair-1", "pair", wanted="pair"),
    resident("log", "log", wanted="web"),
)


def books() -> Books:
    engine = Engine(MACHINE, Config())
    for one in RESIDENTS:
        engine.create(one)
    return engine._allocator.books  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("asked", "but", "required"),
    [
        pytest.param("db-0 log", None, "db-0", id="whom another's rule is about"),
        pytest.param("db-0 db-1", None, "db-0 db-1", id="both whom one rule is about"),
        pytest.param("lone log", None, "", id="nobody must be with itself"),
        pytest.param("pair-0 pair-1", None, "pair-0 pair-1", id="each other"),
        pytest.param("db-0 web", ContainerId("web"), "web", id="the rules of one do not count"),
        pytest.param("pair-0 pair-1", ContainerId("pair-1"), "pair-1", id="those of the other do"),
        pytest.param("web", None, "web", id="one alone"),
        pytest.param("web", ContainerId("log"), "", id="one alone, and not by that rule"),
    ],
)
def test_residents_are_required_by_others(
    asked: str, but: ContainerId | None, required: str
) -> None:
    found = books()
    some = RequiredResidents(found.standing, found.affinity.residents, but)

    assert list(some.among(map(ContainerId, asked.split()))) == required.split()


@pytest.mark.parametrize("but", [None, ContainerId("web"), ContainerId("pair-0")])
def test_what_was_asked_before_changes_no_answer(but: ContainerId | None) -> None:
    found = books()
    residents = found.affinity.residents
    known = RequiredResidents(found.standing, residents, but)
    pairs = [(one.id, other.id) for one in RESIDENTS for other in RESIDENTS if one is not other]

    assert [known.among(pair) for pair in pairs] == [
        RequiredResidents(found.standing, residents, but).among(pair) for pair in pairs
    ]

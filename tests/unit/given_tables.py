"""The unit-level tables of the policy our users run today, where they are at hand."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.scenarios.scenario_file import build_topology
from pinfold.policy.text.yaml_fields import Field, read_fields
from pinfold.topology.model.machine import Machine

GIVEN = Path(__file__).parents[3] / "shared" / "scenarios" / "given.yaml"
GIB = 2**30
NO_TABLE = "the given tables are not beside the project"

needs_tables = pytest.mark.skipif(not GIVEN.exists(), reason=NO_TABLE)


@cache
def given() -> Field:
    (document,) = read_fields(GIVEN.read_text(), GIVEN.name)
    return document


def table(table_id: str) -> Field:
    (found,) = [one for one in given()["scenarios"].elements() if one["id"].value == table_id]
    return found


def rows(*table_ids: str) -> list[object]:
    """One parameter for each row of the tables; one that skips where there are none."""
    if not GIVEN.exists():
        return [pytest.param("", None, marks=pytest.mark.skip(reason=NO_TABLE))]
    return [
        pytest.param(table_id, one, id=f"{table_id}: {one['name'].text(f'row {number}')}")
        for table_id in table_ids
        for number, one in enumerate(table(table_id)["cases"].elements())
    ]


def no_sysfs(path: str) -> NoReturn:
    raise AssertionError(path)


@cache
def machine(name: str) -> Machine:
    return build_topology(given()["topologies"][name], no_sysfs).machine


def config(values: Field) -> Config:
    return config_from_values({key: one.value for key, one in values.entries().items()})


def expectations(table_id: str) -> list[object]:
    """One parameter for each expectation of a table without rows."""
    if not GIVEN.exists():
        return [pytest.param("", marks=pytest.mark.skip(reason=NO_TABLE))]
    return [pytest.param(one.text(), id=one.text()) for one in table(table_id)["expect"].elements()]


def holds(
    differences: Mapping[tuple[str, str], tuple[str, str]], table_id: str, row: Field, answer: str
) -> None:
    """The answer is the one given, or the one that is listed as a difference."""
    difference = differences.get((table_id, row["name"].text()))
    if difference is None:
        assert answer == row["expect"].text()
    else:
        assert answer == difference[0]
        assert answer != row["expect"].text(), "a difference that is none any more: take it out"


def guaranteed(name: str, milli: int, **annotations: str) -> Container:
    """A container of a Guaranteed pod with 1 GiB; `cpu_class="x"` is the annotation `cpu-class`."""
    keys = {
        f"{key.replace('_', '-')}.resource-policy.nri.io/pod": text
        for key, text in annotations.items()
    }
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, uid=name, qos=QosClass.GUARANTEED, annotations=keys),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli,
            memory_request_bytes=GIB,
            memory_limit_bytes=GIB,
        ),
    )

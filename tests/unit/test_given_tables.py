"""The unit-level tables of the policy our users run today, where they are at hand.

Those of the cpu picker, of the memory allocator and of single parts have tests of their own.
"""

from collections.abc import Mapping

import pytest

from pinfold.policy.annotations.preferences import parse_preferences
from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import PoolId
from pinfold.policy.model.request import CpuType, Isolation, Request
from pinfold.policy.placing.classifier import Classifier
from pinfold.policy.placing.pool_choice import Chooser, Facts
from pinfold.policy.pools.closeness import Closeness
from pinfold.policy.pools.pool_tree import Pool
from pinfold.policy.scenarios.expressions.evaluator import evaluate
from pinfold.policy.scenarios.expressions.values import Record, Value
from pinfold.policy.text.quantity import parse_milli
from pinfold.policy.text.yaml_fields import Field
from pinfold.topology.model.machine import MemoryKind
from tests.unit.given_tables import config, machine, needs_tables, rows, table

SIBLINGS = (
    "two pools are as close as the smallest pool that holds both: joining one friend beats the"
    " parent of both"
)
TIGHTER = "a pool is never preferred to its child that is as near to every friend"
RESERVED = (
    "requests for reserved cpus are not ranked: the root serves them, whatever comes out here"
)
# Rows that go another way here, by table and name, with what we answer and why.
DIFFERENCES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("unit-affinities", "reserved - no affinities"): ("NUMA node #2", RESERVED),
    ("unit-affinities", "affinity to socket #1"): ("NUMA node #1", TIGHTER),
    ("unit-affinities", "equal to NUMA #1 and #3"): ("NUMA node #1", SIBLINGS),
    ("unit-affinities", "double NUMA #1 vs #3"): ("NUMA node #1", SIBLINGS),
    ("unit-affinities", "double NUMA #0,#3 vs socket #1"): ("NUMA node #3", SIBLINGS),
    ("unit-affinities", "equal NUMA #0,#3 vs socket #1"): ("NUMA node #3", SIBLINGS),
    ("unit-affinities", "half NUMA #0,#3 vs socket #1"): ("NUMA node #3", SIBLINGS),
}


def container(row: Field, qos: QosClass) -> Container:
    pod = Pod(
        id=PodId("p"),
        name="pod",
        namespace=row["namespace"].text("default"),
        annotations=row["annotations"].texts(),
        qos=qos,
    )
    milli = parse_milli(row["cpu_req"].scalar("0"))
    return Container(
        id=ContainerId("c"),
        name=row["container"].text("c0"),
        pod=pod,
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli if qos is QosClass.GUARANTEED else None,
        ),
    )


@pytest.mark.parametrize(("table_id", "row"), rows("unit-cpu-allocation-preferences"))
def test_containers_are_classified_as_given(table_id: str, row: Field) -> None:
    # A pod without a class is treated as Guaranteed there.
    named = row["qos"].text()
    qos = QosClass.GUARANTEED if named == "unset" else QosClass(named)
    request = Classifier(config(row["config"])).classify(container(row, qos)).request
    answer = {
        "full": request.exclusive,
        "fraction": request.shared_milli,
        "isolate": request.isolation is not Isolation.NO,
        "cpu_type": request.cpu_type.value,
    }
    assert answer == row["expect"].value


@pytest.mark.parametrize(
    ("table_id", "row"), rows("unit-isolated-preference", "unit-shared-preference")
)
def test_preferences_are_read_as_given(table_id: str, row: Field) -> None:
    preferences = parse_preferences(container(row, QosClass.GUARANTEED))
    name = table(table_id)["preference"].text()
    chosen = {
        "prefer-isolated-cpus": preferences.prefer_isolated,
        "prefer-shared-cpus": preferences.prefer_shared,
    }[name]
    expected = row["expect"].value
    if isinstance(expected, bool):
        assert chosen is not None
        assert chosen.value is expected
        return
    assert expected in ("config default", "config default (error logged)")
    assert chosen is None
    assert bool(preferences.problems) is ("error" in expected)


def request_of(row: Field) -> Request:
    wanted = row["request"]
    kinds = wanted["mem_type"].text()
    # Without kinds no pool has an offer there, which makes memory a tie; so does plain memory here.
    named = ["DRAM"] if kinds == "unspecified" else kinds.split(",")
    return Request(
        container_id=ContainerId("c"),
        qos=QosClass.GUARANTEED,
        cpu_type=CpuType(wanted["cpu_type"].text("normal")),
        exclusive=wanted["full"].integer(0),
        isolation=Isolation.PREFERRED if wanted["isolate"].boolean() else Isolation.NO,
        memory_bytes=wanted["mem_req"].integer(),
        memory_limit_bytes=wanted["mem_lim"].integer(),
        memory_kinds=frozenset(MemoryKind(one.lower()) for one in named),
    )


def best_pool(books: Books, request: Request, weights: Mapping[str, int]) -> Pool:
    by_name = {pool.name: pool.id for pool in books.tree.pools}
    affinities = Closeness(books.tree).affinities(
        {PoolId(by_name[name]): weight for name, weight in weights.items()}
    )
    facts = Facts(memory=books.pool_memory.choice(request), affinities=affinities)
    chooser = Chooser(books.tree, books.picker.classes)
    winner = chooser.best(chooser.lineup(request, books.ledger, facts)).winner
    assert winner is not None
    return books.tree.pools[winner]


@pytest.mark.parametrize(
    ("table_id", "row"), rows("unit-pool-creation", "unit-workload-placement", "unit-affinities")
)
def test_pools_are_built_and_ranked_as_given(table_id: str, row: Field) -> None:
    about = table(table_id)
    name = row["topology"].text(about["topology"].text(""))
    books = Books(machine(name), config(about["config"]))
    weights = {pool: one.integer() for pool, one in row["affinities"].entries().items()}
    best = best_pool(books, request_of(row), weights)
    pools = books.tree.pools
    names: dict[str, Value] = {
        "pool_ids": frozenset[Value](pool.id for pool in pools),
        "leaf_cpu_counts": [len(pool.cpus) for pool in pools if not pool.children],
        "root_cpu_count": len(books.tree.root.cpus),
        "best_pool": Record(
            {
                "name": best.name,
                "is_leaf": not best.children,
                "memory_types": frozenset[Value](kind.name for kind in best.memory),
            }
        ),
    }
    difference = DIFFERENCES.get((table_id, row["name"].text()))
    holds = all(evaluate(one.text(), names) is True for one in row["expect"].elements())
    if difference is None:
        assert holds, best.name
    else:
        assert not holds, "a difference that is none any more: take it out"
        assert best.name == difference[0]


@needs_tables
@pytest.mark.parametrize("name", ["unit-server", "unit-4-socket-nosnc", "unit-desktop"])
def test_pools_have_the_given_ids(name: str) -> None:
    books = Books(machine(name), Config())
    answer = [f"{pool.id} {pool.name}" for pool in books.tree.pools]
    expected = table("unit-pool-creation")["derived_tree"][name]
    assert answer == [one.text() for one in expected.elements()]

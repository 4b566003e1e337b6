"""The given table of saved grants: what an earlier process remembered, and what comes of it."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from pinfold.cmd.state.saved_container import SavedContainer, SavedPod
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import State, StateFile, load_state
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.policy.model.grant import Grant
from pinfold.policy.text.yaml_fields import Field
from pinfold.policy.tuning.interrupts import Interrupt
from pinfold.topology.model.machine import MemoryKind
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.given_tables import guaranteed, holds, machine, rows

KEPT = "the runtime's list is the truth: a container keeps its cpus, and they tell its pool"
GONE = "who is not in the runtime's list has ended: there is nothing to restore"
# Rows that go another way here, by table and name, with what we answer and why.
DIFFERENCES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("unit-grant-state", "unknown pool"): ("adopted by its cpus", KEPT),
    ("unit-grant-state", "known pool, unknown container"): ("passed over", GONE),
}
LOG = logging.getLogger("test_given_state")
FULL = ContainerId("full")


def all_fields() -> Container:
    """A container that has something of everything that is saved."""
    return guaranteed(
        "full",
        2500,
        prefer_shared_cpus="false",
        cpu_class="fast",
        memory_type="pmem,dram",
        cold_start="duration: 10s",
        irq_affinity="claim: [eth0]",
    )


def engine() -> Engine:
    config = config_from_values(
        {
            "reservedResources": {"cpu": "cpuset:0"},
            "cpuClasses": [{"name": "fast"}, {"name": "calm"}],
            "sharedPoolCPUClass": "calm",
        }
    )
    eth0 = Interrupt(number=5, description="eth0", affinity=CpuSet.of(0))
    return Engine(machine("unit-server"), config, interrupts=(eth0,))


def saved(policy: Engine) -> State:
    return SavedStates().of(policy.snapshot())


def restored(state: State, advice: Mapping[ContainerId, Advice] | None = None) -> Engine:
    """Another process with what the runtime lists and what was saved."""
    again = engine()
    found = again.synchronize(state.running(), state.advice() if advice is None else advice)
    assert found.changes == (), "nobody is moved"
    again.check()
    return again


def state_of(*containers: Container) -> tuple[Engine, State]:
    policy = engine()
    for one in containers:
        assert isinstance(policy.create(one).result, Grant)
    return policy, saved(policy)


def unknown_pool(_row: Field, _folder: Path) -> str:
    before, state = state_of(guaranteed("one", 2000))
    (advice,) = state.advice().values()
    again = restored(state, {ContainerId("one"): msgspec.structs.replace(advice, pool="gone")})
    assert again.grants == before.grants
    return "adopted by its cpus"


def unknown_container(_row: Field, _folder: Path) -> str:
    before, state = state_of(guaranteed("one", 2000))
    (advice,) = state.advice().values()
    others = {ContainerId("one"): advice, ContainerId("gone"): advice}
    again = restored(state, others)
    assert again.grants == before.grants
    return "passed over"


def both_known(_row: Field, _folder: Path) -> str:
    before, state = state_of(guaranteed("one", 2000))
    assert restored(state).grants == before.grants
    return "ok"


def round_trip(row: Field, folder: Path) -> str:
    before, state = state_of(all_fields())
    StateFile(folder, LOG).write(state)
    first = (folder / "state.json").read_bytes()
    read = load_state(folder / "state.json")
    again = restored(read)
    assert set(CARRIED) == {one.text() for one in row["json_fields"].elements()}
    for name, (path, value) in CARRIED.items():
        assert value(again) == value(before), name
        assert value(again) not in (None, "", 0, frozenset()), f"{name}: nothing to lose"
        (pod,) = read.pods
        one: object = pod if path.startswith("pod.") else pod.containers[0]
        for step in path.removeprefix("pod.").split("."):
            one = getattr(one, step)
        assert one, f"{name}: {path} is empty"
    StateFile(folder, LOG).write(saved(again))
    assert (folder / "state.json").read_bytes() == first
    return "identical JSON"


def grant_of(policy: Engine) -> Grant:
    return policy.grants[FULL]


# For each field of the Go policy's file the field of ours that carries it, and its value: a field
# of what was asked for, where it follows from that, as everything of a request does.
CARRIED: Mapping[str, tuple[str, Callable[[Engine], object]]] = {
    "PrettyName": ("pod.name", lambda policy: policy.containers[FULL].path),
    "Exclusive": ("exclusive", lambda policy: grant_of(policy).exclusive),
    "Part": ("resources.cpu_request_milli", lambda policy: grant_of(policy).shared_milli),
    "CPUType": ("pod.namespace", lambda policy: grant_of(policy).cpu_type),
    "CPUClass": (
        "pod.annotations",
        lambda policy: policy.snapshot().occupancy().holdings[0].cpu_class,
    ),
    "Container": ("id", lambda policy: grant_of(policy).container_id),
    "Pool": ("pool", lambda policy: grant_of(policy).pool_id + 1),
    "MemoryPool": ("mems", lambda policy: grant_of(policy).memory),
    "MemType": ("pod.annotations", lambda policy: asked_memory(policy)[0]),
    "MemSize": ("resources.memory_request_bytes", lambda policy: asked_memory(policy)[1]),
    "ColdStart": ("pod.annotations", lambda policy: policy.decisions[FULL].cold_start_ns),
    "Irqs": ("pod.annotations", lambda policy: policy.snapshot().occupancy().holdings[0].irq),
}


def asked_memory(policy: Engine) -> tuple[frozenset[MemoryKind], int]:
    (request,) = (one.request for one in policy.snapshot().memory.holders if one.id == FULL)
    return request.types, request.size_bytes


STATES: Mapping[str, Callable[[Field, Path], str]] = {
    "unknown pool": unknown_pool,
    "known pool, unknown container": unknown_container,
    "known pool and container": both_known,
    "serialisation round trip": round_trip,
}


@pytest.mark.parametrize(("table_id", "row"), rows("unit-grant-state"))
def test_grants_are_restored_as_given(table_id: str, row: Field, tmp_path: Path) -> None:
    holds(DIFFERENCES, table_id, row, STATES[row["name"].text()](row, tmp_path))


def test_every_field_that_is_saved_is_one_of_the_container_or_its_grant() -> None:
    own = {field.name for field in msgspec.structs.fields(SavedContainer)}
    of_pod = {f"pod.{field.name}" for field in msgspec.structs.fields(SavedPod)}
    paths = {path for path, _ in CARRIED.values()}
    assert {one for one in paths if one.startswith("pod.")} <= of_pod
    assert {one.partition(".")[0] for one in paths if not one.startswith("pod.")} <= own

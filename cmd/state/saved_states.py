"""States to be saved, made of snapshots: what stayed the same is the same object the next time."""

from collections.abc import Iterator, Mapping

import msgspec

from ...nri.dispatch.courtesy import ALONE, Courtesy
from ...policy.configuration.config import Config
from ...policy.engine.snapshot import Snapshot
from ...topology.drawing.fingerprint import machine_fingerprint, machine_summary
from ...topology.model.machine import Machine
from .saved_container import PlacedContainer
from .saved_pods import TEXT_BYTES_MAX, SavedPods
from .state_file import SavedMachine, State


class SavedStates:
    """Makes states of snapshots, of one policy and its successors. For one thread."""

    def __init__(self, text_bytes_max: int = TEXT_BYTES_MAX) -> None:
        self._pods = SavedPods(text_bytes_max)
        self._machine: tuple[Machine, SavedMachine] | None = None
        self._config: tuple[Config, Mapping[str, object]] | None = None

    def of(self, snapshot: Snapshot, courtesy: Courtesy = ALONE) -> State:
        """The state to be saved of a snapshot. O(containers + length of changed texts)."""
        if self._machine is None or self._machine[0] is not snapshot.machine:
            self._machine = (snapshot.machine, saved_machine(snapshot.machine))
        if self._config is None or self._config[0] is not snapshot.config:
            self._config = (snapshot.config, msgspec.to_builtins(snapshot.config))
        return State(
            machine=self._machine[1],
            config=self._config[1],
            pods=self._pods.collect(_placed(snapshot, courtesy), courtesy),
        )


def saved_machine(machine: Machine) -> SavedMachine:
    """The machine to be saved: a summary and a fingerprint, which takes a while to compute."""
    return SavedMachine(
        summary=machine_summary(machine),
        fingerprint=machine_fingerprint(machine),
        spec=machine.spec,
    )


def _placed(snapshot: Snapshot, courtesy: Courtesy) -> Iterator[PlacedContainer]:
    pools = snapshot.tree.pools
    for container_id, grant in courtesy.among(snapshot.grants.items()):
        yield PlacedContainer(
            container=snapshot.containers[container_id],
            cpus=snapshot.cpus_of(container_id),
            mems=snapshot.memory_of(container_id),
            grant=grant,
            pool=pools[grant.pool_id],
            unmet=snapshot.unmet_of(container_id),
            pod_size=snapshot.pod_size_of(container_id),
        )

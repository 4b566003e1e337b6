"""States to be saved, made of snapshots: what stayed the same is the same object the next time."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ...nri.dispatch.pacer import ALONE, Pacer
from ...policy.configuration.config import Config
from ...policy.engine.snapshot import Snapshot, changed_ids
from ...policy.model.container import ContainerId
from ...topology.drawing.fingerprint import machine_fingerprint, machine_summary
from ...topology.model.machine import Machine
from .saved_container import PlacedContainer
from .saved_pods import TEXT_BYTES_MAX, SavedPods
from .state_file import SavedMachine, State


class SavedStates:
    """Makes states of snapshots, of one policy and its successors. For one thread."""

    def __init__(self, text_bytes_max: int = TEXT_BYTES_MAX) -> None:
        self._text_bytes_max = text_bytes_max
        self._pods = SavedPods(text_bytes_max)
        self._seen: Snapshot | None = None
        """The snapshot of the pods that are kept; None: there was none, or a fault ended a look."""
        self._untold: Collection[ContainerId] = ()
        """Containers in it that nobody told any cpus: they run on others as others come and go."""
        self._machine: tuple[Machine, SavedMachine] | None = None
        self._config: tuple[Config, Mapping[str, object]] | None = None

    def of(self, snapshot: Snapshot, pacer: Pacer = ALONE) -> State:
        """The state to be saved of a snapshot. O(containers + length of changed texts).

        The snapshot is kept until the next one.
        """
        if self._machine is None or self._machine[0] is not snapshot.machine:
            self._machine = (snapshot.machine, saved_machine(snapshot.machine))
        if self._config is None or self._config[0] is not snapshot.config:
            self._config = (snapshot.config, msgspec.to_builtins(snapshot.config))
        before, self._seen = self._seen, None
        if before is None:
            self._pods = SavedPods(self._text_bytes_max)
        gone = [one for one in before.grants if one not in snapshot.grants] if before else []
        changed = _changed(before, snapshot, self._untold)
        self._untold = _untold(snapshot, changed)
        pods = self._pods.follow(_placed(snapshot, pacer.among(changed)), gone, pacer)
        self._seen = snapshot
        return State(
            machine=self._machine[1],
            config=self._config[1],
            usable=str(snapshot.supply.usable),
            reserved=str(snapshot.supply.reserved),
            knows_beside=True,
            stuck={
                snapshot.containers[one].shown_id: str(cpus)
                for one, cpus in snapshot.stuck_for_good().items()
            },
            pods=pods,
        )


def saved_machine(machine: Machine) -> SavedMachine:
    """The machine to be saved: a summary and a fingerprint, which takes a while to compute."""
    return SavedMachine(
        summary=machine_summary(machine),
        fingerprint=machine_fingerprint(machine),
        spec=machine.spec,
    )


def _changed(
    before: Snapshot | None, after: Snapshot, untold: Iterable[ContainerId]
) -> Collection[ContainerId]:
    """Containers that may have to be saved otherwise than they were, each once.

    `untold`: those that nobody had told any cpus before; they are among them.
    """
    grants, told = after.grants, after.pinnings
    if before is None or before.tree is not after.tree or before.pod_sizes != after.pod_sizes:
        return grants
    return dict.fromkeys(
        (
            *changed_ids(before.grants, grants, grants),
            *changed_ids(before.pinnings, told, grants),
            *changed_ids(before.containers, after.containers, grants),
            # They tell which rules do not hold.
            *changed_ids(before.decisions, after.decisions, grants),
            *(one for one in untold if one in grants),
            *_of_other_pens(before, after),
        )
    )


def _of_other_pens(before: Snapshot, after: Snapshot) -> Sequence[ContainerId]:
    """Containers for whose pens other cpus are kept shared than before. O(pens), else O(grants)."""
    pens, known = after.pens, before.pens
    changed = [one for one in changed_ids(known, pens, pens) if one in known]
    found = {one for one in changed if known[one].beside != pens[one].beside}
    return [one for one, grant in after.grants.items() if grant.pen in found] if found else ()


def _untold(snapshot: Snapshot, ids: Iterable[ContainerId]) -> Collection[ContainerId]:
    """Containers that nobody tells any cpus, out of some."""
    return [one for one in ids if snapshot.told_cpus_of(one) is None]


def _placed(snapshot: Snapshot, ids: Iterable[ContainerId]) -> Iterator[PlacedContainer]:
    pools = snapshot.tree.pools
    for container_id in ids:
        grant = snapshot.grants[container_id]
        yield PlacedContainer(
            container=snapshot.containers[container_id],
            cpus=snapshot.cpus_of(container_id),
            mems=snapshot.memory_of(container_id),
            grant=grant,
            pool=pools[grant.pool_id],
            unmet=snapshot.unmet_of(container_id),
            pod_size=snapshot.pod_size_of(container_id),
            beside=snapshot.beside_of(container_id),
            is_unpinned=snapshot.told_cpus_of(container_id) is None,
            placed_for_milli=snapshot.placed_for_milli_of(container_id),
        )

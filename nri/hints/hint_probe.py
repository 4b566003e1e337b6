"""Topology hints of mounts and devices, in a given time: a file server may never answer."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, field

from ...policy.annotations.annotation_values import is_resource
from ...policy.annotations.preferences import parse_preferences
from ...policy.hints.hint_filter import is_used, is_worth_a_look
from ...policy.model.container import Container, ContainerId
from ...policy.model.hint import Hint
from ...topology.sysfs.sysfs_tree import SysfsTree
from ..dispatch.report import HintsMissing
from ..dispatch.turn import Failed, Turn
from .claim_metadata import is_metadata
from .device_hints import DeviceHints, DeviceNumber, DeviceOf, ReadFile

_PATIENCE_SECONDS: Final = 0.05
"""For one container."""
_NEAR: Final = "near-device."
_THREADS_MAX: Final = 8
"""Each path that hangs holds one until it answers."""


class ProbedHints(Struct, frozen=True):
    """The hints of containers by id, and those that could not be had."""

    hints: dict[ContainerId, tuple[Hint, ...]] = field(
        default_factory=dict[ContainerId, tuple[Hint, ...]]
    )
    missing: list[HintsMissing] = field(default_factory=list[HintsMissing])


class HintProbe:
    """Looks at mounts and devices in threads that are left behind where they hang.

    A path that hangs is not looked at again before it answers.
    """

    def __init__(
        self,
        tree: SysfsTree,
        device_of: DeviceOf,
        clock: Callable[[], float] = time.monotonic,
        read_file: ReadFile | None = None,
    ) -> None:
        self._locality = DeviceHints(tree, self._ask, read_file)
        self._device_of = device_of
        self._clock = clock
        self._asked: set[str] = set()
        """The paths a thread waits for at this moment."""
        self._threads: list[threading.Thread] = []

    def look(self, containers: Sequence[Container], seconds: float) -> ProbedHints:
        """The hints of containers that are known after at most so long."""
        view = ProbedHints()
        ahead: deque[Container] = deque()
        for container in containers:
            if not is_interesting(container):
                view.hints[container.id] = ()
            elif not self._is_stuck(container):
                ahead.append(container)
        self._work_off(ahead, view, self._clock() + seconds)
        late = [one.path for one in containers if one.id not in view.hints]
        if late:
            view.missing.append(HintsMissing(self._complaint(late), len(late)))
        view.missing.extend(
            HintsMissing(f"/{one} — no hint comes from it; see the device's driver or firmware", 0)
            for one in self._locality.take_warnings()
        )
        # A thread that was left behind may still write into its own.
        return ProbedHints(dict(view.hints), view.missing)

    def _work_off(self, ahead: deque[Container], view: ProbedHints, until: float) -> None:
        """Look at one container after the other; where one hangs, another thread goes on."""
        while ahead and (self._clock() < until) and self._has_threads():
            turn = Turn("hints", partial(self._look_at, ahead, view))
            thread = threading.Thread(target=turn.run, name="hints", daemon=True)
            self._threads.append(thread)
            thread.start()
            result = None
            left = len(ahead) + 1
            while result is None and len(ahead) < left:
                left = len(ahead)
                result = turn.wait(max(0.0, min(_PATIENCE_SECONDS, until - self._clock())))
            if isinstance(result, Failed):
                text = f"looking for what containers are near: {result.error!r}"
                view.missing.append(HintsMissing(f"{text} — placed without", 0))

    def _look_at(self, ahead: deque[Container], view: ProbedHints) -> None:
        while ahead:
            container = ahead.popleft()
            preferences = parse_preferences(container)
            found = self._locality.hints(container, preferences.hint_sources)
            device = preferences.near_device
            if device is not None and not is_resource(device):
                near = self._locality.near(device)
                if not near:
                    text = f"{container.path}: nothing tells where device {device!r} is, placed"
                    text += " as without near-device.pinfold.dev — name a device of this node"
                    view.missing.append(HintsMissing(text, 0))
                found = (*found, *near)
            irq = preferences.irq_affinity
            if irq is not None and irq.value.devices:
                found = self._locality.with_interrupts(found)
            view.hints[container.id] = found

    def _ask(self, path: str) -> DeviceNumber | None:
        self._asked.add(path)
        try:
            return self._device_of(path)
        finally:
            self._asked.discard(path)

    def _is_stuck(self, container: Container) -> bool:
        return any(mount.source in self._asked for mount in container.mounts)

    def _has_threads(self) -> bool:
        self._threads = [one for one in self._threads if one.is_alive()]
        return len(self._threads) < _THREADS_MAX

    def _complaint(self, late: Sequence[str]) -> str:
        others = f" and {len(late) - 1} others" if len(late) > 1 else ""
        paths = ", ".join(map(repr, sorted(self._asked))) or "its mounts"
        return (
            f"{late[0]}{others}: no answer from {paths} in time, placed without hints of mounts"
            " and devices — see whether the disk or server behind it answers"
        )


def is_interesting(container: Container) -> bool:
    """Whether a mount or a device can tell where a container should be."""
    return (
        any(map(is_worth_a_look, container.mounts))
        or any(map(is_used, container.devices))
        or any(map(is_metadata, container.mounts))
        or any(key.startswith(_NEAR) for key in container.pod.annotations)
    )

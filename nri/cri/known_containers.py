"""Containers by the names that the proxy has for them: the policy's, and the runtime's.

A container is placed before the runtime gives it an id. Until then, and for the policy as long as
this process knows it, its id is made of its sandbox, its name and its attempt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...policy.model.container import ContainerId, PodId
from ...policy.model.pinning import Pinning


class InstanceKey(NamedTuple):
    """Names that tell a container from all others of its runtime at one time."""

    sandbox_id: str
    name: str
    attempt: int

    @property
    def policy_id(self) -> ContainerId:
        """The id of a container that has none of the runtime's."""
        return ContainerId(f"{self.sandbox_id}/{self.name}/{self.attempt}")


@dataclass(slots=True, kw_only=True)
class KnownContainer:
    """A container that was created through the proxy, or is being created."""

    key: InstanceKey
    policy_id: ContainerId
    runtime_id: str = ""
    """Empty until the runtime gave one."""
    created_with: Pinning | None = None
    """The pinning that its creation carried, if it carried one."""
    creations: int = 0
    """Calls under way that may create it."""
    doubted_at: float | None = None
    """When a call ended of which nobody knows whether it created the container."""
    noted: int = 0
    """The number of the first list that must have it."""


class KnownContainers:
    """Every container that was created through the proxy since it runs; others have one id.

    Changed in the loop's thread alone; single ids may be looked up from any.
    """

    def __init__(self) -> None:
        self._by_key: dict[InstanceKey, KnownContainer] = {}
        self._by_policy_id: dict[ContainerId, KnownContainer] = {}
        self._by_runtime_id: dict[str, KnownContainer] = {}
        self.lists = 0
        """How many lists were asked for so far."""

    def policy_id(self, runtime_id: str) -> ContainerId:
        """The policy's id of a container of the runtime."""
        known = self._by_runtime_id.get(runtime_id)
        return ContainerId(runtime_id) if known is None else known.policy_id

    def runtime_id(self, policy_id: ContainerId) -> str:
        """The runtime's id of a container of the policy; empty where it has none yet."""
        known = self._by_policy_id.get(policy_id)
        return policy_id if known is None else known.runtime_id

    def get(self, key: InstanceKey) -> KnownContainer | None:
        """A container by its names."""
        return self._by_key.get(key)

    def begin(self, key: InstanceKey) -> KnownContainer:
        """A call begins that is to create this container."""
        known = self._by_key.get(key)
        if known is None:
            known = KnownContainer(key=key, policy_id=key.policy_id)
            self._by_key[key] = known
            self._by_policy_id[known.policy_id] = known
        known.creations += 1
        return known

    def bind(self, known: KnownContainer, runtime_id: str) -> None:
        """The runtime has created a container with this id."""
        if self._by_key.get(known.key) is not known:
            return
        if self._by_runtime_id.get(known.runtime_id) is known:
            # An instance before it, which somebody removed past the proxy.
            del self._by_runtime_id[known.runtime_id]
        known.runtime_id, known.doubted_at = runtime_id, None
        known.noted = self.lists + 1
        self._by_runtime_id[runtime_id] = known

    def forget(self, known: KnownContainer) -> None:
        """A container is gone, or was never created."""
        if self._by_key.get(known.key) is known:
            del self._by_key[known.key]
            del self._by_policy_id[known.policy_id]
            self._by_runtime_id.pop(known.runtime_id, None)

    def forget_runtime_id(self, runtime_id: str) -> None:
        """A container of the runtime is gone."""
        known = self._by_runtime_id.get(runtime_id)
        if known is not None:
            self.forget(known)

    def forget_policy_id(self, policy_id: ContainerId) -> None:
        """A container of the policy is gone."""
        known = self._by_policy_id.get(policy_id)
        if known is not None and not known.creations:
            self.forget(known)

    def forget_sandbox(self, pod_id: PodId) -> None:
        """A sandbox is gone with all that was in it."""
        for known in [one for one in self._by_key.values() if one.key.sandbox_id == pod_id]:
            if not known.creations:
                self.forget(known)

    def doubted(self, before: float) -> Iterator[KnownContainer]:
        """Containers without an id whose last creation ended unknown before a time."""
        for known in tuple(self._by_key.values()):
            is_over = not known.creations and not known.runtime_id
            if is_over and known.doubted_at is not None and known.doubted_at <= before:
                yield known

    def is_expected(self, policy_id: ContainerId, number: int) -> bool:
        """Whether the list of this number must have a container, if that is still there."""
        known = self._by_policy_id.get(policy_id)
        if known is None:
            return True
        return bool(known.runtime_id) and known.noted <= number

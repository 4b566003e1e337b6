"""The reconciler: what the runtime lists, compared with what the policy knows, again and again.

Exits while nobody listened, containers made at the runtime's own socket and creations of which
nobody knows what came of them are found here.
"""

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from ...policy.model.container import ContainerId, ContainerState
from ..api import cri_proxy_pb2 as cri
from ..api import nri_pb2
from ..dispatch.newcomer import Listing, placed_mention
from ..dispatch.owner import Owner
from .hooks import Hooks
from .proxy_events import ProxiedPolicy
from .runtime_list import Described, RuntimeList, describe, key_of, read_list
from .upstream import Upstream

LOOK_SECONDS: Final = 5.0
"""Between two lists, where nothing asks for one earlier."""
DOUBT_SECONDS: Final = 1.0
"""After which a list tells whether a creation that ended unknown was one after all."""
_ADOPTION_SECONDS: Final = 30.0
_ALIVE: Final = (cri.CONTAINER_CREATED, cri.CONTAINER_RUNNING)


class Reconciler:
    """Lists of one runtime's containers, applied to the policy. For the loop's thread."""

    def __init__(
        self,
        policy: ProxiedPolicy,
        upstream: Upstream,
        owner: Owner,
        hooks: Hooks,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._upstream = upstream
        self._events = policy.events.events
        self._owner = owner
        self._turns = policy.turns
        self._reader = policy.reader
        self._known = policy.known
        self._hooks = hooks
        self._started = policy.started
        self._look_seconds = look_seconds
        self._missing: set[ContainerId] = set()
        """Containers that the last list lacked, and that were not given up for that."""

    async def adopt(self) -> None:
        """Let the policy take over all that runs, before it places anybody. Nothing moves.

        Raises `AioRpcError` where the runtime does not answer.
        """
        listed = await read_list(self._upstream)
        alive = [one for one in listed.containers.values() if one.state in _ALIVE]
        described = await describe(self._upstream, listed, alive, self._known.policy_id)
        self._hooks.note_pods(described.pods)
        events = self._events

        def read() -> Listing:
            return self._reader.read_all(
                described.pods,
                described.containers,
                events.policy.containers,
                with_kubelet=events.asks_kubelet,
            )

        listing = await asyncio.get_running_loop().run_in_executor(None, read)

        def synchronize() -> None:
            events.post(events.synchronize(listing))

        turn = self._owner.submit("adoption", synchronize)
        await asyncio.get_running_loop().run_in_executor(None, turn.wait, _ADOPTION_SECONDS)

    @property
    def pause_seconds(self) -> float:
        """The time until the next look, where nothing asks for one earlier."""
        has_doubts = bool(self._missing) or any(self._known.doubted(time.monotonic()))
        return min(DOUBT_SECONDS, self._look_seconds) if has_doubts else self._look_seconds

    async def look(self) -> None:
        """Compare the runtime's list with what the policy knows.

        Raises `AioRpcError` where the runtime does not answer.
        """
        begun = time.monotonic()
        self._known.lists += 1
        number = self._known.lists
        before = frozenset(self._events.policy.containers)
        listed = await read_list(self._upstream)
        by_key = {key_of(one): one for one in listed.containers.values()}
        for known in self._known.doubted(begun):
            found = by_key.get(known.key)
            if found is not None:
                self._hooks.bind(known, found.id)
            elif known.doubted_at is not None and known.doubted_at + DOUBT_SECONDS <= begun:
                self._hooks.undo(known)
        settled = await self._turns.ask(
            "list",
            lambda: self._settle(listed, number, before),
            _ADOPTION_SECONDS,
            late=lambda _: None,
            given_up=lambda _: None,
        )
        if settled is None:
            return
        for policy_id in settled.gone:
            self._known.forget_policy_id(policy_id)
        if settled.strangers:
            described = await describe(
                self._upstream, listed, settled.strangers, self._known.policy_id
            )
            self._adopt_late(described)

    def _settle(
        self, listed: RuntimeList, number: int, before: frozenset[ContainerId]
    ) -> "_Settled":
        """Take over what became of the containers that are known."""
        states = {self._known.policy_id(one): each for one, each in listed.containers.items()}
        events, policy = self._events, self._events.policy
        missing: set[ContainerId] = set()
        for policy_id, container in dict(policy.containers).items():
            found = states.get(policy_id)
            if found is None:
                if policy_id in before and self._known.is_expected(policy_id, number):
                    missing.add(policy_id)
            elif found.state == cri.CONTAINER_EXITED:
                if container.state is not ContainerState.EXITED:
                    events.post(events.stop(policy_id))
            elif (
                found.state == cri.CONTAINER_RUNNING
                and container.state is ContainerState.CREATED
                and policy_id in policy.grants
            ):
                events.start(placed_mention(policy_id))
                self._started(policy_id)
        # A runtime that has just begun may not know all yet: nobody loses cpus over one list.
        gone = missing & self._missing
        for policy_id in gone:
            events.post(events.remove(policy_id))
        self._missing = missing - gone
        strangers = [one for one in _newest_running(listed) if self._is_stranger(one)]
        return _Settled(strangers, frozenset(gone))

    def _is_stranger(self, one: cri.ListedContainer) -> bool:
        """Whether a container runs that nobody placed."""
        policy_id, policy = self._known.policy_id(one.id), self._events.policy
        known = policy.containers.get(policy_id)
        is_over = known is not None and known.state is ContainerState.EXITED
        # Its creation is under way, or has not been told yet.
        is_coming = policy_id == one.id and self._known.get(key_of(one)) is not None
        return policy_id not in policy.grants and not is_over and not is_coming

    def _adopt_late(self, described: Described) -> None:
        self._hooks.note_pods(described.pods)
        pods = {one.id: one for one in described.pods}
        for message in described.containers:
            if message.state != nri_pb2.CONTAINER_RUNNING:
                continue
            pod = pods.get(message.pod_sandbox_id, nri_pb2.PodSandbox(id=message.pod_sandbox_id))
            mention = self._reader.mention(pod, message, with_kubelet=self._events.asks_kubelet)
            self._owner.submit("adoption", partial(self._events.start, mention))


class _Settled(NamedTuple):
    """What is left to do of a list: containers that run unplaced, and those that are gone."""

    strangers: list[cri.ListedContainer]
    gone: frozenset[ContainerId]


def _newest_running(listed: RuntimeList) -> Iterable[cri.ListedContainer]:
    """One running container for each name in a sandbox: the newest.

    A runtime that crashed may still list the old instance of a restarted container as running.
    """
    newest: dict[tuple[str, str], cri.ListedContainer] = {}
    for one in listed.containers.values():
        if one.state == cri.CONTAINER_RUNNING:
            key = one.pod_sandbox_id, one.metadata.name
            known = newest.get(key)
            if known is None or known.created_at <= one.created_at:
                newest[key] = one
    return newest.values()

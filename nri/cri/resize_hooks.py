"""Hooked calls that resize containers and pods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import grpc

from ...policy.model.container import PodId
from ...policy.model.kubelet_resources import LinuxResources
from ..api import cri_proxy_pb2 as cri
from ..dispatch.answer import Answer
from ..dispatch.newcomer import placed_mention
from ..plugin.messages import linux_value
from .nri_messages import nri_resources
from .pod_resizes import PodResizes, SizedPods
from .proxy_events import ProxiedPolicy
from .relay import Passage, RefusedCallError

PATIENCE_SECONDS: Final = 2.0
"""For which a call waits for the policy; then it passes unchanged, and is told later."""
_NO_QUOTA: Final = -1


class _Updated(NamedTuple):
    """What a container asked for before an update, None where that is not known; the answer."""

    asked: LinuxResources | None
    answer: Answer
    is_reserved: bool
    """What the update takes from it is taken once the runtime has agreed."""


class ResizeHooks:
    """Calls that change what a container or a whole pod may use. For the loop's thread."""

    def __init__(
        self,
        policy: ProxiedPolicy,
        pods: SizedPods,
        adopted: Callable[[], Awaitable[None]],
        look: Callable[[], None],
    ) -> None:
        """`adopted`: waits until all that runs is known. `look`: has the lists read soon."""
        self._events = policy.events.events
        self._proxied = policy.events
        self._turns = policy.turns
        self._known = policy.known
        self._pods = pods
        self._pod_resizes = PodResizes(self._events)
        self._adopted = adopted
        self._look = look

    async def update(self, request: bytes) -> Passage:
        """UpdateContainerResources: the kubelet's own, with the cpus kept ours."""
        await self._adopted()
        message = cri.UpdateRequest.FromString(request)
        policy_id, events = self._known.policy_id(message.container_id), self._events
        wanted = linux_value(nri_resources(message.linux))

        mention = placed_mention(policy_id)

        def update() -> _Updated:
            asked = events.asked.get(policy_id)
            if asked is None or policy_id not in events.policy.grants:
                return _Updated(None, Answer(), is_reserved=False)
            reserved = self._proxied.reserve(policy_id, wanted)
            if reserved is not None:
                return _Updated(asked, reserved, is_reserved=True)
            return _Updated(asked, events.update(mention, wanted), is_reserved=False)

        def take_back(found: _Updated) -> None:
            if found.asked is not None and not found.answer.refusal:
                self._proxied.take_back(policy_id, found.asked, found.answer)

        def settle(found: _Updated) -> None:
            self._proxied.post_present(found.answer.all)
            if found.is_reserved and policy_id in events.policy.grants:
                self._proxied.post_present(events.update(mention, wanted).all)

        found = await self._turns.ask(
            "UpdateContainerResources",
            update,
            PATIENCE_SECONDS,
            late=settle,
            given_up=take_back,
        )
        if found is None or found.asked is None:
            return Passage(request=request, failed=lambda _: self._look())
        answer = found.answer
        if answer.refusal:
            self._turns.do("refused update", lambda: self._proxied.post_present(answer.others))
            raise RefusedCallError(grpc.StatusCode.RESOURCE_EXHAUSTED, answer.refusal)
        if answer.own is not None:
            write_answer(answer, message.linux)
            request = message.SerializeToString()
        if answer.is_echo:
            return Passage(request=request)
        return Passage(
            request=request,
            done=lambda _: self._turns.do("update", lambda: settle(found)),
            failed=lambda _: self._turns.do("undone update", lambda: take_back(found)),
        )

    async def update_pod(self, request: bytes) -> Passage:
        """UpdatePodSandboxResources, which the kubelet calls before it resizes a pod."""
        await self._adopted()
        message = cri.UpdateSandboxRequest.FromString(request)
        wanted = linux_value(nri_resources(message.resources))
        resize = self._pods.resize(PodId(message.pod_sandbox_id), wanted)
        if resize is None:
            return Passage(request=request)
        resizes, turns = self._pod_resizes, self._turns
        answer = await turns.ask(
            "UpdatePodSandboxResources",
            lambda: resizes.begin(resize),
            PATIENCE_SECONDS,
            late=lambda _: None,
            given_up=lambda _: resizes.end(resize, is_done=False),
        )
        if answer is not None and answer.refusal:
            raise RefusedCallError(grpc.StatusCode.RESOURCE_EXHAUSTED, answer.refusal)

        def end(*, is_done: bool) -> None:
            turns.do("end of a resize", lambda: resizes.end(resize, is_done=is_done))

        # Nobody can ask a runtime what came of a call: but it changes nothing itself, and a caller
        # that was not told of a success leaves the pod as it was, and asks again later.
        return Passage(
            request=request,
            done=lambda _: end(is_done=True),
            failed=lambda _: end(is_done=False),
        )


def write_answer(answer: Answer, resources: cri.Resources) -> None:
    """Put what the policy decided in the place of what the kubelet asks for."""
    own = answer.own
    if own is not None and own.cpus:
        resources.cpuset_cpus = str(own.cpus)
    if own is not None and own.mems:
        resources.cpuset_mems = str(own.mems)
    if answer.lifts_quota:
        resources.cpu_quota = _NO_QUOTA

"""Hooked calls of the kubelet: what the policy is asked, and told, about each.

Cpus that somebody gives up go to others only once the runtime said that it is so. Calls of which
nobody knows what came of them are left to the next list of the runtime's containers.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from ...policy.model.container import ContainerId, ContainerState, Pod, PodId
from ..api import cri_proxy_pb2 as cri
from ..api import nri_pb2
from ..dispatch.answer import Answer
from ..dispatch.newcomer import Newcomer, placed_mention
from ..dispatch.report import Answered, Outcome, Report
from ..plugin.container_reader import FIND_SECONDS
from ..plugin.messages import linux_value, pod_value
from .known_containers import InstanceKey, KnownContainer
from .nri_messages import container_of_config, sandbox_of_config
from .pod_resizes import SizedPods
from .proxy_events import ProxiedPolicy
from .relay import CallFailure, Hook, Passage, RefusedCallError
from .resize_hooks import PATIENCE_SECONDS, ResizeHooks, write_answer
from .uncarried_classes import UncarriedClasses

ADOPTION_SECONDS: Final = 2.0
"""For which a call waits until all that runs is known."""


class Hooks:
    """The calls that the proxy looks at, for one policy. For the loop's thread."""

    def __init__(
        self,
        policy: ProxiedPolicy,
        report: Report,
        threads: Executor,
        adopted: asyncio.Event,
        look: Callable[[], None],
        cdi_folders: Sequence[Path],
    ) -> None:
        """`adopted`: set once all that runs is known. `look`: has the lists read soon."""
        self._events = policy.events.events
        self._proxied = policy.events
        self._turns = policy.turns
        self._reader = policy.reader
        self._known = policy.known
        self._report = report
        self._threads = threads
        self._adopted = adopted
        self._look = look
        self._started = policy.started
        self._cdi_folders = cdi_folders
        self._uncarried = UncarriedClasses(report)
        self._sized = SizedPods()
        self._resizes = ResizeHooks(policy, self._sized, self._wait_for_adoption, look)

    def table(self) -> Mapping[str, Hook]:
        """The hooks by method of the RuntimeService."""
        return {
            "RunPodSandbox": self._run_pod,
            "CreateContainer": self._create,
            "StartContainer": self._start,
            "UpdateContainerResources": self._resizes.update,
            "UpdatePodSandboxResources": self._resizes.update_pod,
            "StopContainer": partial(self._end, self._stop_done),
            "RemoveContainer": partial(self._end, self.removed),
            "StopPodSandbox": partial(self._end, self._pod_stopped),
            "RemovePodSandbox": partial(self._end, self._pod_removed),
        }

    async def _run_pod(self, request: bytes) -> Passage:
        config = cri.RunSandboxRequest.FromString(request).config

        def done(reply: bytes) -> None:
            sandbox_id = cri.RunSandboxResponse.FromString(reply).pod_sandbox_id
            with_kubelet = self._events.asks_kubelet
            sandbox = sandbox_of_config(sandbox_id, config)
            pod = self._reader.expect(sandbox, with_kubelet=with_kubelet)
            self._note_pod(sandbox, pod)
            self._turns.do("RunPodSandbox", lambda: self._events.policy.expect(pod))

        return Passage(request=request, done=done)

    def note_pods(self, sandboxes: Iterable[nri_pb2.PodSandbox]) -> None:
        """Pods that were there before."""
        for one in sandboxes:
            self._note_pod(one, pod_value(one))

    def _note_pod(self, sandbox: nri_pb2.PodSandbox, pod: Pod) -> None:
        self._sized.note(pod, linux_value(sandbox.linux.pod_resources))

    async def _create(self, request: bytes) -> Passage:
        await self._wait_for_adoption()
        message = cri.CreateRequest.FromString(request)
        metadata = message.config.metadata
        key = InstanceKey(message.pod_sandbox_id, metadata.name, metadata.attempt)
        while (earlier := self._known.get(key)) is not None and not earlier.is_placed.is_set():
            # Whoever asks again meanwhile gets the same answer; or is the first, if that gave up.
            await earlier.is_placed.wait()
        known = self._known.begin(key)
        answer = Answer()
        if earlier is None:
            try:
                answer = await self._placed(known, message)
            except BaseException:
                known.creations -= 1
                if not known.creations and not known.runtime_id:
                    self._known.forget(known)
                raise
            finally:
                known.is_placed.set()
        else:
            # The kubelet asks again for what may be there by now: it has its cpus already.
            policy = self._events.policy
            answer = Answer(
                own=policy.pinning(known.policy_id),
                lifts_quota=policy.lifts_quota(known.policy_id),
            )
        if answer.own is not None:
            known.created_with = answer.own
            write_answer(answer, message.config.linux.resources)
            request = message.SerializeToString()
        return Passage(
            request=request, done=partial(self._created, known), failed=partial(self._failed, known)
        )

    async def _placed(self, known: KnownContainer, message: cri.CreateRequest) -> Answer:
        """The answer about a new container; an empty one where the policy is too slow."""
        begun = time.monotonic()
        policy_id, events = known.policy_id, self._events
        newcomer = await self._read(policy_id, message)

        def late(answer: Answer) -> None:
            if not answer.refusal:
                events.post(answer)

        answer = await self._turns.ask(
            "CreateContainer",
            lambda: events.create(newcomer),
            PATIENCE_SECONDS,
            late=late,
            given_up=lambda _: self._proxied.release(policy_id),
            in_time=self._proxied.created,
        )
        outcome = Outcome.LATE if answer is None else Outcome.DONE
        if answer is not None and answer.refusal:
            outcome = Outcome.REFUSED
        self._report(Answered("CreateContainer", time.monotonic() - begun, outcome))
        if answer is None:
            return Answer()
        if answer.refusal:
            self._turns.do("refusal", lambda: self._proxied.release(policy_id))
            raise RefusedCallError(grpc.StatusCode.RESOURCE_EXHAUSTED, answer.refusal)
        if objection := self._uncarried.objection(answer, events.policy.config):
            self._turns.do("refusal", lambda: self._proxied.release(policy_id))
            raise RefusedCallError(grpc.StatusCode.FAILED_PRECONDITION, objection)
        return answer

    async def _read(self, policy_id: ContainerId, message: cri.CreateRequest) -> Newcomer:
        """A container with what it is near."""
        reader, config = self._reader, message.config
        with_kubelet = self._events.asks_kubelet
        sandbox = sandbox_of_config(message.pod_sandbox_id, message.sandbox_config)

        def bare() -> Newcomer:
            folders = self._cdi_folders
            container = container_of_config(policy_id, sandbox.id, config, folders)
            return reader.read_bare(sandbox, container)

        def found(newcomer: Newcomer) -> Newcomer:
            return reader.with_found(newcomer, with_kubelet=with_kubelet, seconds=FIND_SECONDS)

        # Not in the loop where devices and mounts are looked up: others' calls go on meanwhile.
        loop = asyncio.get_running_loop()
        if config.devices or config.CDI_devices:
            newcomer = await loop.run_in_executor(self._threads, lambda: found(bare()))
        else:
            newcomer = bare()
            if reader.is_looked_for(newcomer, with_kubelet=with_kubelet):
                newcomer = await loop.run_in_executor(self._threads, found, newcomer)
        pod = newcomer.container.pod
        if not self._sized.is_known(pod.id):
            self._note_pod(sandbox, pod)
        return newcomer

    def _created(self, known: KnownContainer, reply: bytes) -> None:
        known.creations -= 1
        runtime_id = cri.CreateResponse.FromString(reply).container_id
        self.bind(known, runtime_id)

    def bind(self, known: KnownContainer, runtime_id: str) -> None:
        """The runtime has created a container, and says its id."""
        self._known.bind(known, runtime_id)
        policy_id, created_with = known.policy_id, known.created_with
        identify = partial(self._proxied.identify, policy_id, runtime_id, created_with)
        self._turns.do("id", identify)

    def _failed(self, known: KnownContainer, failure: CallFailure) -> None:
        known.creations -= 1
        if known.runtime_id:
            return
        is_alone = not known.creations and known.doubted_at is None
        if failure is CallFailure.NOT_DONE and is_alone:
            self.undo(known)
        else:
            known.doubted_at = time.monotonic()
            self._look()

    def undo(self, known: KnownContainer) -> None:
        """Give back what a container holds that was not created after all."""
        self._known.forget(known)
        self._turns.do("undone creation", lambda: self._proxied.release(known.policy_id))

    async def _start(self, request: bytes) -> Passage:
        await self._wait_for_adoption()
        runtime_id = cri.OfOneRequest.FromString(request).id

        def done(_reply: bytes) -> None:
            self._turns.do("StartContainer", lambda: self._has_started(runtime_id))

        # One that fails to start is over, and no event tells of it.
        return Passage(request=request, done=done, failed=lambda _: self._look())

    def _has_started(self, runtime_id: str) -> None:
        policy_id = self._known.policy_id(runtime_id)
        if policy_id in self._events.policy.grants:
            self._events.start(placed_mention(policy_id))
            self._started(policy_id)
        else:
            self._look()

    async def _end(self, ended: Callable[[str], None], request: bytes) -> Passage:
        await self._wait_for_adoption()
        of = cri.OfOneRequest.FromString(request).id

        def failed(failure: CallFailure) -> None:
            if failure is CallFailure.UNKNOWN:
                self._look()

        return Passage(request=request, done=lambda _: ended(of), failed=failed)

    def _stop_done(self, runtime_id: str) -> None:
        policy_id = self._known.policy_id(runtime_id)

        def stop() -> None:
            known = self._events.policy.containers.get(policy_id)
            if known is not None and known.state is ContainerState.CREATED:
                # Runtimes pass over one that does not run yet, which may be started all the same.
                self._look()
            else:
                self._events.post(self._events.stop(policy_id))

        self._turns.do("StopContainer", stop)

    def stopped(self, runtime_id: str) -> None:
        """A container of the runtime is over, as that says; sandboxes and unknown ids count not."""
        policy_id = self._known.policy_id(runtime_id)
        self._turns.do("StopContainer", lambda: self._events.post(self._events.stop(policy_id)))

    def removed(self, runtime_id: str) -> None:
        """A container of the runtime is gone, as that says."""
        policy_id = self._known.policy_id(runtime_id)
        self._known.forget_runtime_id(runtime_id)
        self._turns.do("RemoveContainer", lambda: self._events.post(self._events.remove(policy_id)))

    def seen_running(self, runtime_id: str) -> None:
        """A container runs, or a sandbox; one that nobody placed is looked for in a list."""
        if self._known.policy_id(runtime_id) not in self._events.policy.grants:
            self._look()

    def _pod_stopped(self, sandbox_id: str) -> None:
        self._turns.do("StopPodSandbox", lambda: self._events.stop_pod(PodId(sandbox_id)))

    def _pod_removed(self, sandbox_id: str) -> None:
        pod_id = PodId(sandbox_id)
        self._known.forget_sandbox(pod_id)
        pod = self._sized.forget(pod_id)
        uid = "" if pod is None else pod.uid
        self._turns.do("RemovePodSandbox", lambda: self._events.remove_pod(pod_id, uid))

    async def _wait_for_adoption(self) -> None:
        """Wait until it is known what runs where: no container is placed before."""
        if self._adopted.is_set():
            return
        try:
            async with asyncio.timeout(ADOPTION_SECONDS):
                await self._adopted.wait()
        except TimeoutError:
            text = "pinfold: what runs already is not known yet"
            raise RefusedCallError(grpc.StatusCode.UNAVAILABLE, text) from None

"""The Plugin service: from the bytes of one call to the bytes of its answer, in time.

Whatever happens, the runtime gets an answer before it loses patience: where the policy is too slow
or at fault the answer changes nothing, and the real one follows as an update.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError, Message

from ...policy.configuration.config import SchedulingClass
from ...policy.model.container import ContainerId, PodId
from ..api import nri_pb2
from ..dispatch.answer import Answer
from ..dispatch.owner import Done, Failed, Owner, attempt
from ..dispatch.report import Answered, Connected, Crashed, Outcome, Report, Unsupported
from ..wire.connection import Call
from ..wire.ttrpc import Code
from .events import Events
from .messages import adjustment_message, update_messages
from .newcomers import FIND_SECONDS
from .runtime_versions import RuntimeAbilities, abilities

PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"

_PATIENCE: Final = 0.75
"""The part of the runtime's patience that is used up before it is answered safely."""

_FINDING: Final = 0.33
"""The part of a call's deadline that may pass before the policy is asked."""

_SYNCHRONIZE_BYTES_MAX: Final = 128 << 20
"""All pieces of one Synchronize: some containerd sends pieces without end."""

_REQUEST_TIMEOUT_SECONDS: Final = 2.0
"""The runtime's patience where it does not say."""


def _event_bit(event: nri_pb2.Event) -> int:
    return 1 << (int(event) - 1)


# Only what is needed: every event costs each container's start some time. Bits above 0x7ff end the
# connection with older runtimes; none at all would mean every event there is. The mask cannot be
# changed while a connection lasts, so pods that begin are always told of: the configuration may
# want the kubelet asked about them from the next moment on.
EVENT_MASK: Final = (
    _event_bit(nri_pb2.RUN_POD_SANDBOX)
    | _event_bit(nri_pb2.STOP_POD_SANDBOX)
    | _event_bit(nri_pb2.REMOVE_POD_SANDBOX)
    | _event_bit(nri_pb2.CREATE_CONTAINER)
    | _event_bit(nri_pb2.POST_START_CONTAINER)
    | _event_bit(nri_pb2.UPDATE_CONTAINER)
    | _event_bit(nri_pb2.STOP_CONTAINER)
    | _event_bit(nri_pb2.REMOVE_CONTAINER)
)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A call is answered with an error."""

    code: Code
    message: str


Notice = Callable[[Events, nri_pb2.PodSandbox, nri_pb2.Container], None]


def _ignore(_events: Events, _pod: nri_pb2.PodSandbox, _container: nri_pb2.Container) -> None:
    pass


def _expect(events: Events, pod: nri_pb2.PodSandbox, _container: nri_pb2.Container) -> None:
    events.expect(pod)


def _start(events: Events, pod: nri_pb2.PodSandbox, container: nri_pb2.Container) -> None:
    events.start(pod, container)


def _remove(events: Events, _pod: nri_pb2.PodSandbox, container: nri_pb2.Container) -> None:
    events.post(events.remove(ContainerId(container.id)))


def _stop_pod(events: Events, pod: nri_pb2.PodSandbox, _container: nri_pb2.Container) -> None:
    events.stop_pod(PodId(pod.id))


def _remove_pod(events: Events, pod: nri_pb2.PodSandbox, _container: nri_pb2.Container) -> None:
    events.remove_pod(PodId(pod.id))


# Events whose answer says nothing, so that nobody has to wait for the policy.
_NOTICES: Final[Mapping[str, Notice]] = {
    "RunPodSandbox": _expect,
    "StopPodSandbox": _stop_pod,
    "RemovePodSandbox": _remove_pod,
    "PostCreateContainer": _ignore,
    "StartContainer": _start,
    "PostStartContainer": _start,
    "PostUpdateContainer": _ignore,
    "RemoveContainer": _remove,
}

# Older runtimes send these as StateChange, newer ones as calls of their own.
_STATE_CHANGES: Final[Mapping[int, str]] = {
    nri_pb2.RUN_POD_SANDBOX: "RunPodSandbox",
    nri_pb2.STOP_POD_SANDBOX: "StopPodSandbox",
    nri_pb2.REMOVE_POD_SANDBOX: "RemovePodSandbox",
    nri_pb2.POST_CREATE_CONTAINER: "PostCreateContainer",
    nri_pb2.START_CONTAINER: "StartContainer",
    nri_pb2.POST_START_CONTAINER: "PostStartContainer",
    nri_pb2.POST_UPDATE_CONTAINER: "PostUpdateContainer",
    nri_pb2.REMOVE_CONTAINER: "RemoveContainer",
}


class Service:
    """Serves the calls of one connection, one at a time. It keeps a half-received Synchronize."""

    def __init__(
        self,
        events: Events,
        owner: Owner,
        report: Report,
        clock: Callable[[], float],
        deadline_seconds: float,
    ) -> None:
        self._events = events
        self._owner = owner
        self._report = report
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._request_timeout_seconds = _REQUEST_TIMEOUT_SECONDS
        self._pods: list[nri_pb2.PodSandbox] = []
        self._containers: list[nri_pb2.Container] = []
        self._synchronize_started: float | None = None
        self._synchronize_bytes = 0
        self._runtime = ""
        self._unscheduled: set[str] = set()
        self.abilities: RuntimeAbilities | None = None
        """What the runtime can; None until it has told what it is."""
        self.runtime_name = ""
        self.runtime_version = ""
        self.is_synchronized = False
        self.forgotten = ""
        """Why the runtime did not take our answer to Synchronize, if so: an older one keeps the
        connection then, and never calls again."""

    def serve(self, call: Call) -> bytes | Rejection:
        """What the runtime is answered."""
        started = self._clock()
        self._events.heard()
        try:
            answer, outcome = self._serve(call, started)
        except DecodeError as error:
            text = f"{call.method}: request cannot be parsed: {error}"
            answer, outcome = Rejection(Code.INVALID_ARGUMENT, text), Outcome.UNKNOWN
        self._report(Answered(call.method, self._clock() - started, outcome))
        return answer.SerializeToString() if isinstance(answer, Message) else answer

    def _serve(self, call: Call, started: float) -> tuple[Message | Rejection, Outcome]:
        if call.service == PLUGIN_SERVICE:
            match call.method:
                case "Configure":
                    return self._configure(nri_pb2.ConfigureRequest.FromString(call.payload))
                case "Synchronize":
                    return self._synchronize(call, started)
                case "CreateContainer":
                    return self._create(call, started)
                case "UpdateContainer":
                    return self._update(call)
                case "StopContainer":
                    return self._stop(call)
                case "StateChange":
                    change = nri_pb2.StateChangeEvent.FromString(call.payload)
                    name = _STATE_CHANGES.get(change.event)
                    if name is not None:
                        self._notice(name, change.pod, change.container)
                    return nri_pb2.Empty(), Outcome.DONE
                case "Shutdown":
                    return nri_pb2.Empty(), Outcome.DONE
                case method if method in _NOTICES:
                    # In all these requests field 1 is the pod, and field 2 the container if any.
                    request = nri_pb2.StartContainerRequest.FromString(call.payload)
                    self._notice(method, request.pod, request.container)
                    return nri_pb2.Empty(), Outcome.DONE
                case _:
                    pass
        text = f"{call.service}/{call.method} is not implemented"
        return Rejection(Code.UNIMPLEMENTED, text), Outcome.UNKNOWN

    def _configure(self, request: nri_pb2.ConfigureRequest) -> tuple[Message, Outcome]:
        if request.request_timeout > 0:
            self._request_timeout_seconds = request.request_timeout / 1000
        self.runtime_name, self.runtime_version = request.runtime_name, request.runtime_version
        self._runtime = f"{request.runtime_name} {request.runtime_version}".strip()
        self.abilities = abilities(
            request.runtime_name, request.runtime_version, request.NRI_version
        )
        self._report(Connected(self._runtime))
        return nri_pb2.ConfigureResponse(events=EVENT_MASK), Outcome.DONE

    def _synchronize(self, call: Call, started: float) -> tuple[Message | Rejection, Outcome]:
        self._synchronize_bytes += len(call.payload)
        if self._synchronize_bytes > _SYNCHRONIZE_BYTES_MAX:
            self._pods, self._containers = [], []
            text = (
                f"Synchronize: more than {_SYNCHRONIZE_BYTES_MAX >> 20} MiB of pods and containers"
                " — remove annotations that nobody needs, or stopped pods"
            )
            self.forgotten = text
            return Rejection(Code.RESOURCE_EXHAUSTED, text), Outcome.REFUSED
        request = nri_pb2.SynchronizeRequest.FromString(call.payload)
        # The runtime's patience is for all pieces together.
        first = started if self._synchronize_started is None else self._synchronize_started
        self._pods.extend(request.pods)
        self._containers.extend(request.containers)
        if request.more:
            self._synchronize_started = first
            return nri_pb2.SynchronizeResponse(more=True), Outcome.DONE
        pods, containers = self._pods, self._containers
        self._pods, self._containers, self._synchronize_started = [], [], None
        self._synchronize_bytes = 0
        left = call.timeout_nano / 1e9 or self._request_timeout_seconds - (started - first)
        answer, outcome = self._ask(
            "Synchronize",
            lambda: self._events.synchronize(pods, containers),
            max(0.0, _PATIENCE * left),
        )
        if self._clock() - started > left:
            self.forgotten = "Synchronize was answered too late"
        self.is_synchronized = True
        return nri_pb2.SynchronizeResponse(update=update_messages(answer.all)), outcome

    def _create(self, call: Call, started: float) -> tuple[Message | Rejection, Outcome]:
        request = nri_pb2.CreateContainerRequest.FromString(call.payload)
        seconds = self._deadline(call)
        # Here and not in the policy's thread: looking for what a container is near takes time.
        limit = min(FIND_SECONDS, _FINDING * seconds)
        read = attempt(lambda: self._events.read(request.pod, request.container, limit))
        if isinstance(read, Failed):
            self._report(Crashed(call.method, read.error))
            return nri_pb2.CreateContainerResponse(), Outcome.CRASHED
        newcomer = read.value
        answer, outcome = self._ask(
            call.method,
            lambda: self._events.create(newcomer),
            max(0.0, seconds - (self._clock() - started)),
            self._events.created,
        )
        if answer.refusal:
            return Rejection(Code.FAILED_PRECONDITION, answer.refusal), outcome
        response = nri_pb2.CreateContainerResponse(update=update_messages(answer.others))
        if answer.own is not None:
            adjustment = adjustment_message(answer.own, self._scheduling(answer), answer.classes)
            if adjustment is not None:
                response.adjust.CopyFrom(adjustment)
        return response, outcome

    def _scheduling(self, answer: Answer) -> SchedulingClass | None:
        """How a new container is to be scheduled, where the runtime can do that."""
        chosen = answer.scheduling
        if chosen is None or (self.abilities is not None and self.abilities.can_schedule):
            return chosen
        if chosen.name not in self._unscheduled:
            self._unscheduled.add(chosen.name)
            self._report(
                Unsupported(
                    f"scheduling class {chosen.name!r}: {self._runtime or 'the runtime'} cannot set"
                    " how processes are scheduled, so its containers run without — use a runtime"
                    " with NRI 0.11 or newer"
                )
            )
        return None

    def _update(self, call: Call) -> tuple[Message | Rejection, Outcome]:
        request = nri_pb2.UpdateContainerRequest.FromString(call.payload)
        answer, outcome = self._ask(
            call.method,
            lambda: self._events.update(request.pod, request.container, request.linux_resources),
            self._deadline(call),
        )
        if answer.refusal:
            return Rejection(Code.FAILED_PRECONDITION, answer.refusal), outcome
        return nri_pb2.UpdateContainerResponse(update=update_messages(answer.all)), outcome

    def _stop(self, call: Call) -> tuple[Message, Outcome]:
        request = nri_pb2.StopContainerRequest.FromString(call.payload)
        container_id = ContainerId(request.container.id)
        # Only the undoing of a failed creation tells no state. Source: seen on containerd 1.7, 2.1.
        is_undone = request.container.state == nri_pb2.CONTAINER_UNKNOWN
        answer, outcome = self._ask(
            call.method,
            lambda: self._events.stop(container_id, is_undone=is_undone),
            self._deadline(call),
        )
        return nri_pb2.StopContainerResponse(update=update_messages(answer.all)), outcome

    def _notice(self, method: str, pod: nri_pb2.PodSandbox, container: nri_pb2.Container) -> None:
        notice = _NOTICES[method]
        if notice is not _ignore:
            self._owner.submit(method, lambda: notice(self._events, pod, container))

    def _ask(
        self,
        name: str,
        work: Callable[[], Answer],
        seconds: float,
        in_time: Callable[[Answer], Answer] | None = None,
    ) -> tuple[Answer, Outcome]:
        """What the policy says, or an answer that changes nothing."""
        in_time = in_time or self._events.answered
        match self._owner.submit(name, work, self._events.post, in_time).wait(seconds):
            case Done(value=answer):
                return answer, Outcome.REFUSED if answer.refusal else Outcome.DONE
            case Failed():
                return Answer(), Outcome.CRASHED
            case None:
                return Answer(), Outcome.LATE

    def _deadline(self, call: Call) -> float:
        patience = call.timeout_nano / 1e9 or self._request_timeout_seconds
        return min(self._deadline_seconds, _PATIENCE * patience)

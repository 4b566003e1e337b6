"""The Plugin service: from the bytes of one call to the bytes of its answer, in time.

Whatever happens, the runtime gets an answer before it loses patience: where the policy is too slow
or at fault the answer changes nothing, and the real one follows as an update.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from ...policy.model.container import ContainerId
from ...policy.model.kubelet_resources import merge
from ..api import nri_pb2
from ..dispatch.answer import Answer
from ..dispatch.events import Events
from ..dispatch.owner import Owner
from ..dispatch.pod_updates import update_pod
from ..dispatch.report import Connected, Crashed, Outcome, Report
from ..dispatch.turn import Done, Failed, Turn
from ..wire.connection import Call, Rejection
from ..wire.ttrpc import Code
from .adjustments import Adjustments, lift_quota
from .container_reader import FIND_SECONDS, ContainerReader
from .messages import linux_value, pod_value, update_messages
from .runtime_events import EVENT_MASK, NOTICES, POD_UPDATES, STATE_CHANGES, RuntimeEvent
from .runtime_versions import RuntimeAbilities, abilities
from .synchronize_pieces import SynchronizePieces
from .written_updates import written_updates

PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"

_PATIENCE: Final = 0.75
"""The part of the runtime's patience that is used up before it is answered safely."""

_FINDING: Final = 0.33
"""The part of a call's deadline that may pass before the policy is asked."""

_REQUEST_TIMEOUT_SECONDS: Final = 2.0
"""The runtime's patience where it does not say."""

SAFE_ANSWER: Final = b""
"""What changes nothing, whatever was called: a message without fields."""


class ServedCall(Struct, kw_only=True):
    """A call that is being served, or was."""

    call: Call
    started: float
    seconds: float
    """After which it is answered safely."""
    turn: Turn[Answer] | None = None
    """The policy's part of it, once it is asked."""
    deadline: float = 0.0
    """When the policy should have said something."""
    answer: bytes | Rejection = SAFE_ANSWER
    outcome: Outcome = Outcome.DONE
    given_up: float | None = None
    """When it was answered safely, while the policy still thought."""
    notice: Turn[None] | None = None
    """What an event means whose answer says nothing: to be done once that is sent."""


Serve = Callable[[ServedCall], tuple[Message | Rejection | bytes, Outcome]]
"""Finds the answer to a call."""


class Service:
    """The calls of one connection, one at a time. It keeps a half-received Synchronize."""

    def __init__(
        self,
        events: Events,
        reader: ContainerReader,
        owner: Owner,
        report: Report,
        clock: Callable[[], float],
        deadline_seconds: float,
    ) -> None:
        self.owner = owner
        self.report = report
        self.deadline_seconds = deadline_seconds
        self._events = events
        self._reader = reader
        self._clock = clock
        self._request_timeout_seconds = _REQUEST_TIMEOUT_SECONDS
        self._pieces = SynchronizePieces()
        self._adjustments = Adjustments(report)
        self._answers: Mapping[str, Serve] = {
            **dict.fromkeys(NOTICES, self._notice),
            "CreateContainer": self._create,
            "StopContainer": self._stop,
            "UpdateContainer": self._update,
            "UpdatePodSandbox": self._update_pod,
            "StateChange": self._change,
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "Shutdown": lambda _: (SAFE_ANSWER, Outcome.DONE),
        }
        self.runtime_name = ""
        self.runtime_version = ""
        self.is_synchronized = False
        self.forgotten = ""
        """Why the runtime did not take our answer to Synchronize, if so: an older one keeps the
        connection then, and never calls again."""

    @property
    def abilities(self) -> RuntimeAbilities | None:
        """Abilities of the runtime; None until it has told what it is."""
        return self._adjustments.abilities

    def serve(self, served: ServedCall) -> None:
        """Find the answer to a call. Its notice, if there is one, is to be done after it."""
        self._events.heard()
        try:
            is_ours = served.call.service == PLUGIN_SERVICE
            serve = self._answers.get(served.call.method, _refuse) if is_ours else _refuse
            answer, served.outcome = serve(served)
            served.answer = answer.SerializeToString() if isinstance(answer, Message) else answer
        except DecodeError as error:
            text = f"{served.call.method}: request cannot be parsed: {error}"
            served.answer, served.outcome = Rejection(Code.INVALID_ARGUMENT, text), Outcome.UNKNOWN
        except Exception as error:
            # Whatever is wrong with one call, those behind it are to be answered.
            self.report(Crashed(served.call.method, error))
            served.answer, served.outcome = SAFE_ANSWER, Outcome.CRASHED

    def deadline_of(self, call: Call) -> float:
        """The seconds after which a call is answered safely."""
        patience = call.timeout_nano / 1e9 or self._request_timeout_seconds
        return min(self.deadline_seconds, _PATIENCE * patience)

    def give_up(self, served: ServedCall) -> bool:
        """Whether a call has to be answered safely: the policy has said nothing so far.

        It goes on, and what it says then follows as an update. For another thread than that which
        serves the call.
        """
        turn = served.turn
        if turn is None or not turn.abandon():
            return False
        served.outcome = Outcome.LATE
        served.given_up = self._clock()
        if served.call.method == "Synchronize":
            self.is_synchronized = True
        return True

    def _change(self, served: ServedCall) -> tuple[bytes, Outcome]:
        change = nri_pb2.StateChangeEvent.FromString(served.call.payload)
        event = STATE_CHANGES.get(change.event)
        if event is not None:
            self._note(served, event, change.pod, change.container)
        return SAFE_ANSWER, Outcome.DONE

    def _notice(self, served: ServedCall) -> tuple[bytes, Outcome]:
        # In all these requests field 1 is the pod, and field 2 the container if any.
        request = nri_pb2.StartContainerRequest.FromString(served.call.payload)
        self._note(served, NOTICES[served.call.method], request.pod, request.container)
        return SAFE_ANSWER, Outcome.DONE

    def _configure(self, served: ServedCall) -> tuple[Message, Outcome]:
        request = nri_pb2.ConfigureRequest.FromString(served.call.payload)
        if request.request_timeout > 0:
            self._request_timeout_seconds = request.request_timeout / 1000
        self.runtime_name, self.runtime_version = request.runtime_name, request.runtime_version
        runtime = f"{request.runtime_name} {request.runtime_version}".strip()
        can = abilities(request.runtime_name, request.runtime_version, request.NRI_version)
        self._adjustments.runtime, self._adjustments.abilities = runtime, can
        self.report(Connected(runtime))
        events = EVENT_MASK | (POD_UPDATES if can.updates_pods else 0)
        return nri_pb2.ConfigureResponse(events=events), Outcome.DONE

    def _synchronize(self, served: ServedCall) -> tuple[Message | Rejection | bytes, Outcome]:
        call, started = served.call, served.started
        if text := self._pieces.excess_of(call.payload):
            self.forgotten = text
            return Rejection(Code.RESOURCE_EXHAUSTED, text), Outcome.REFUSED
        if not self._pieces.add(call.payload, started):
            return nri_pb2.SynchronizeResponse(more=True), Outcome.DONE
        pieces, self._pieces = self._pieces, SynchronizePieces()
        first = started if pieces.started is None else pieces.started
        left = call.timeout_nano / 1e9 or self._request_timeout_seconds - (started - first)
        answer, outcome = self._ask(served, lambda: self._adopt(pieces), max(0.0, _PATIENCE * left))
        # Later than its deadline where the whole process slept.
        answered = self._clock() if served.given_up is None else served.given_up
        if answered - started > left:
            self.forgotten = "Synchronize was answered too late"
        self.is_synchronized = True
        return written_updates(nri_pb2.SynchronizeResponse, answer.all), outcome

    def _adopt(self, pieces: SynchronizePieces) -> Answer:
        events = self._events
        listed = self._reader.read_all(
            pieces.pods,
            pieces.containers,
            events.policy.containers,
            with_kubelet=events.asks_kubelet,
        )
        return events.synchronize(listed)

    def _create(self, served: ServedCall) -> tuple[Message | Rejection | bytes, Outcome]:
        request = nri_pb2.CreateContainerRequest.FromString(served.call.payload)
        # Not in the policy's turn: looking for what a container is near takes time.
        newcomer = self._reader.read(
            request.pod,
            request.container,
            with_kubelet=self._events.asks_kubelet,
            seconds=min(FIND_SECONDS, _FINDING * served.seconds),
        )
        answer, outcome = self._ask(
            served,
            partial(self._events.create, newcomer),
            max(0.0, served.seconds - (self._clock() - served.started)),
            self._events.created,
        )
        if answer.refusal:
            return Rejection(Code.FAILED_PRECONDITION, answer.refusal), outcome
        adjustment = self._adjustments.of(answer)
        created = nri_pb2.CreateContainerResponse(adjust=adjustment).SerializeToString()
        return created + written_updates(nri_pb2.CreateContainerResponse, answer.others), outcome

    def _update(self, served: ServedCall) -> tuple[Message | Rejection, Outcome]:
        request = nri_pb2.UpdateContainerRequest.FromString(served.call.payload)
        mention = self._reader.mention(
            request.pod, request.container, with_kubelet=self._events.asks_kubelet
        )
        wanted = linux_value(request.linux_resources)
        answer, outcome = self._ask(
            served, lambda: self._events.update(mention, wanted), served.seconds
        )
        if answer.refusal:
            return Rejection(Code.FAILED_PRECONDITION, answer.refusal), outcome
        response = nri_pb2.UpdateContainerResponse(update=update_messages(answer.all))
        if answer.lifts_quota and answer.container_id is not None:
            own = [one for one in response.update if one.container_id == answer.container_id]
            update = own[0] if own else response.update.add(container_id=answer.container_id)
            lift_quota(update.linux.resources)
        return response, outcome

    def _update_pod(self, served: ServedCall) -> tuple[Message | Rejection, Outcome]:
        request = nri_pb2.UpdatePodSandboxRequest.FromString(served.call.payload)
        pod, size = pod_value(request.pod), linux_value(request.linux_resources)
        created = linux_value(request.pod.linux.pod_resources)
        answer, outcome = self._ask(
            served,
            lambda: update_pod(self._events, pod, merge(created, size)),
            served.seconds,
        )
        if answer.refusal:
            return Rejection(Code.FAILED_PRECONDITION, answer.refusal), outcome
        return nri_pb2.UpdatePodSandboxResponse(), outcome

    def _stop(self, served: ServedCall) -> tuple[bytes, Outcome]:
        request = nri_pb2.StopContainerRequest.FromString(served.call.payload)
        container_id = ContainerId(request.container.id)
        # Only the undoing of a failed creation tells no state. Source: seen on containerd 1.7, 2.1.
        is_undone = request.container.state == nri_pb2.CONTAINER_UNKNOWN
        answer, outcome = self._ask(
            served,
            partial(self._events.stop, container_id, is_undone=is_undone),
            served.seconds,
        )
        return written_updates(nri_pb2.StopContainerResponse, answer.all), outcome

    def _note(
        self,
        served: ServedCall,
        event: RuntimeEvent,
        pod: nri_pb2.PodSandbox,
        container: nri_pb2.Container,
    ) -> None:
        if event.effect is not None:
            work = partial(event.effect, self._events, self._reader, pod, container)
            served.notice = Turn(event.method, work)

    def _ask(
        self,
        served: ServedCall,
        work: Callable[[], Answer],
        seconds: float,
        in_time: Callable[[Answer], Answer] | None = None,
    ) -> tuple[Answer, Outcome]:
        """The policy's answer; where it fails or is late, one that changes nothing."""
        turn = Turn(served.call.method, work, self._events.post, in_time or self._events.answered)
        served.deadline, served.turn = self._clock() + seconds, turn
        match self.owner.serve(turn, seconds):
            case Done(value=answer):
                return answer, Outcome.REFUSED if answer.refusal else Outcome.DONE
            case Failed():
                return Answer(), Outcome.CRASHED
            case None:
                return Answer(), Outcome.LATE


def _refuse(served: ServedCall) -> tuple[Rejection, Outcome]:
    text = f"{served.call.service}/{served.call.method} is not implemented"
    return Rejection(Code.UNIMPLEMENTED, text), Outcome.UNKNOWN

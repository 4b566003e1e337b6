"""The plugin's session against a bare peer: broken, silent, odd or hasty runtimes."""

import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest
from google.protobuf.message import Message as ProtoMessage

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Answered, Disconnected, Happening, Outcome
from pinfold.nri.embedded.plugin_link import PluginLink
from pinfold.nri.plugin.plugin import Plugin, RuntimeLink, Timing
from pinfold.nri.plugin.runtime_events import EVENT_MASK
from pinfold.nri.plugin.service import PLUGIN_SERVICE
from pinfold.nri.plugin.session import Identity, Session
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.nri.wire.connection import Call, Connection, Event, Reply, Role
from pinfold.nri.wire.mux import encode_message
from pinfold.nri.wire.ttrpc import Code, Message, MessageType
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.decision import Adopted
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId
from pinfold.topology.made.spec import machine_from_spec

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
TIMING = Timing(
    deadline_seconds=1.0,
    first_retry_seconds=0.002,
    last_retry_seconds=0.004,
)
LONG = 5.0
KNOWN = nri_pb2.Container(
    id="known",
    state=nri_pb2.CONTAINER_RUNNING,
    linux=nri_pb2.LinuxContainer(
        resources=nri_pb2.LinuxResources(cpu=nri_pb2.LinuxCPU(cpus="1-7", mems="0"))
    ),
)
NAMELESS = nri_pb2.Container(name="nameless", state=nri_pb2.CONTAINER_RUNNING)


class Peer:
    """What a plugin connects to: each connection is handed to the test."""

    def __init__(
        self,
        identity: Identity | None = None,
        policy: Engine | None = None,
        clock: Callable[[], float] = time.monotonic,
        timing: Timing = TIMING,
    ) -> None:
        self.sockets: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self.calls: queue.SimpleQueue[tuple[PluginLink, Call]] = queue.SimpleQueue()
        self.disconnections: queue.SimpleQueue[Disconnected] = queue.SimpleQueue()
        self.outcomes: Counter[Outcome] = Counter()
        self.policy = policy or Engine(MACHINE, Config())
        self.plugin = Plugin(
            self.policy,
            RuntimeLink(connect=self._connect),
            self._report,
            identity=identity,
            timing=timing,
            clock=clock,
        )
        self.thread = threading.Thread(target=self.plugin.run, name="plugin")
        self.thread.start()

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self.sockets.put(ours)
        return theirs

    def _report(self, happening: Happening) -> None:
        if isinstance(happening, Answered):
            self.outcomes[happening.outcome] += 1
        if isinstance(happening, Disconnected):
            self.disconnections.put(happening)

    def accept(self) -> PluginLink:
        link = PluginLink(
            self.sockets.get(timeout=LONG), lambda link, call: self.calls.put((link, call))
        )
        link.start()
        return link

    def register(self) -> tuple[PluginLink, nri_pb2.RegisterPluginRequest]:
        """Accept a connection and answer its registration."""
        self.accept()
        link, call = self.calls.get(timeout=LONG)
        assert call.method == "RegisterPlugin"
        link.respond(call.stream_id, nri_pb2.Empty())
        return link, nri_pb2.RegisterPluginRequest.FromString(call.payload)

    def synchronize(self, nri: str = "") -> PluginLink:
        """Accept a connection and go through the whole handshake with nothing running."""
        link, _ = self.register()
        configure(link, nri=nri)
        request = nri_pb2.SynchronizeRequest()
        link.call("Synchronize", request, nri_pb2.SynchronizeResponse, LONG)
        assert self.plugin.wait_until_ready(LONG)
        return link

    def reason(self) -> str:
        return self.disconnections.get(timeout=LONG).reason

    def end(self) -> None:
        self.plugin.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()
        while not self.sockets.empty():
            self.sockets.get().close()


def configure(
    link: PluginLink, runtime: str = "peer", version: str = "", nri: str = ""
) -> nri_pb2.ConfigureResponse:
    request = nri_pb2.ConfigureRequest(
        runtime_name=runtime, runtime_version=version, NRI_version=nri
    )
    return link.call("Configure", request, nri_pb2.ConfigureResponse, LONG)


@pytest.fixture(name="peer")
def fixture_peer() -> Generator[Peer]:
    peer = Peer()
    yield peer
    peer.end()


def test_plugin_registers_with_name_and_index(peer: Peer) -> None:
    _, request = peer.register()
    assert (request.plugin_name, request.plugin_idx) == ("pinfold", "90")


def test_plugin_tells_the_release_of_nri_that_it_is_written_for(peer: Peer) -> None:
    _, request = peer.register()
    assert request.NRI_version == "v0.12.2"


def test_events_asked_for_are_known_to_every_runtime_and_not_none(peer: Peer) -> None:
    link, _ = peer.register()
    assert configure(link).events == EVENT_MASK
    assert 0 < EVENT_MASK <= 0x7FF


def test_refused_registration_is_reported_and_tried_again(peer: Peer) -> None:
    peer.accept()
    link, call = peer.calls.get(timeout=LONG)
    link.fail(call.stream_id, Code.UNKNOWN, "no room")
    assert peer.reason() == "registration refused: no room"
    peer.synchronize()


def test_silent_runtime_is_left_after_the_handshakes_time() -> None:
    peer = Peer(timing=replace(TIMING, handshake_seconds=0.1))
    try:
        peer.accept()
        assert peer.reason() == "the runtime did not finish the handshake"
        peer.accept()
    finally:
        peer.end()


def test_garbage_on_the_wire_ends_the_connection_and_the_next_one_works(peer: Peer) -> None:
    sock = peer.sockets.get(timeout=LONG)
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "trunk: frame of" in peer.reason()
    sock.close()
    peer.synchronize()


def test_connection_that_is_never_there_is_tried_again() -> None:
    attempts: queue.SimpleQueue[float | None] = queue.SimpleQueue()

    def connect() -> socket.socket:
        raise FileNotFoundError(2, "No such file or directory")

    def report(happening: Happening) -> None:
        assert isinstance(happening, Disconnected)
        assert happening.reason == "cannot connect: No such file or directory"
        attempts.put(happening.retry_seconds)

    plugin = Plugin(Engine(MACHINE, Config()), RuntimeLink(connect=connect), report, timing=TIMING)
    thread = threading.Thread(target=plugin.run)
    thread.start()
    assert all(attempts.get(timeout=LONG) is not None for _ in range(3))
    plugin.stop()
    thread.join(LONG)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("method", "request_bytes", "code"),
    [
        pytest.param("Dance", b"", Code.UNIMPLEMENTED, id="a method nobody knows"),
        pytest.param(
            "ValidateContainerAdjustment",
            b"",
            Code.UNIMPLEMENTED,
            id="validation, which is not asked for",
        ),
        pytest.param(
            "CreateContainer", b"\xff\xff", Code.INVALID_ARGUMENT, id="a payload that is no message"
        ),
        pytest.param(
            "StateChange", b"\xff", Code.INVALID_ARGUMENT, id="an event that is no message"
        ),
    ],
)
def test_calls_that_cannot_be_served_are_answered_and_the_connection_lives(
    peer: Peer, method: str, request_bytes: bytes, code: Code
) -> None:
    link = peer.synchronize()
    assert link.exchange(method, request_bytes, LONG).code == code
    link.call("Shutdown", nri_pb2.Empty(), nri_pb2.Empty, LONG)
    assert peer.outcomes[Outcome.UNKNOWN] == 1


def test_bytes_that_are_no_request_are_answered_and_the_connection_lives(peer: Peer) -> None:
    sock = peer.sockets.get(timeout=LONG)
    runtime = Connection(Role.RUNTIME)
    bad = Message(stream_id=1, type=MessageType.REQUEST, data=b"\xff\xff").encode()
    runtime.request("", "", b"")
    sock.sendall(encode_message(1, bad) + encode_message(9, b"nobody's"))
    sock.sendall(runtime.request(PLUGIN_SERVICE, "Shutdown", b"")[1])
    replies: list[Event] = []
    while len(replies) < 3:
        replies += runtime.receive(sock.recv(4096))
    sock.close()
    assert [one.code for one in replies if isinstance(one, Reply)] == [Code.INVALID_ARGUMENT, 0]


def test_unknown_events_and_events_of_unknown_containers_change_nothing(peer: Peer) -> None:
    link = peer.synchronize()
    ghost = nri_pb2.Container(id="ghost", state=nri_pb2.CONTAINER_STOPPED)
    pod = nri_pb2.PodSandbox(id="gone")
    for event in (*range(16), 99):
        # Field 1 as bytes: newer runtimes have newer events.
        change = nri_pb2.StateChangeEvent(pod=pod, container=ghost).SerializeToString()
        assert link.exchange("StateChange", bytes([8, event]) + change, LONG).code == 0
    stop = nri_pb2.StopContainerRequest(container=ghost)
    for _ in range(2):
        link.call("StopContainer", stop, nri_pb2.StopContainerResponse, LONG)
    update = nri_pb2.UpdateContainerRequest(container=ghost)
    link.call("UpdateContainer", update, nri_pb2.UpdateContainerResponse, LONG)
    assert peer.plugin.settle()
    assert dict(peer.policy.containers) == {}
    assert set(peer.outcomes) == {Outcome.DONE}


def container(name: str) -> nri_pb2.Container:
    message = nri_pb2.Container(id=name, pod_sandbox_id="pod", name=name)
    message.state = nri_pb2.CONTAINER_RUNNING
    message.linux.resources.cpu.shares.value = 1024
    return message


POD = nri_pb2.PodSandbox(
    id="pod", name="pod", namespace="default", linux={"cgroup_parent": "/kubepods/pod1"}
)


def test_container_that_was_never_announced_is_placed_when_it_starts(peer: Peer) -> None:
    link = peer.synchronize("v0.12.1")
    start = nri_pb2.StartContainerRequest(pod=POD, container=container("stray"))
    link.call("PostStartContainer", start, nri_pb2.Empty, LONG)
    _, call = peer.calls.get(timeout=LONG)
    assert call.method == "UpdateContainers"
    [update] = nri_pb2.UpdateContainersRequest.FromString(call.payload).update
    assert (update.container_id, update.linux.resources.cpu.cpus) == ("stray", "1")
    link.respond(call.stream_id, nri_pb2.UpdateContainersResponse())
    with ThreadPoolExecutor(1) as thread:
        settled = thread.submit(peer.plugin.settle)
        while not settled.done():
            with suppress(queue.Empty):
                _, again = peer.calls.get(timeout=0.01)
                # The first one may have come before it was noted that the container runs.
                assert again.payload == call.payload
                link.respond(again.stream_id, nri_pb2.UpdateContainersResponse())
        assert settled.result()


def test_late_start_of_a_removed_container_does_not_bring_it_back(peer: Peer) -> None:
    link = peer.synchronize()
    create = nri_pb2.CreateContainerRequest(pod=POD, container=container("short"))
    link.call("CreateContainer", create, nri_pb2.CreateContainerResponse, LONG)
    for method in ("RemoveContainer", "RemoveContainer", "PostStartContainer"):
        request = nri_pb2.StartContainerRequest(pod=POD, container=container("short"))
        link.call(method, request, nri_pb2.Empty, LONG)
    assert peer.plugin.settle()
    assert dict(peer.policy.containers) == {}


def test_pieces_of_a_synchronize_are_echoed_and_acted_on_with_the_last(peer: Peer) -> None:
    link, _ = peer.register()
    configure(link)
    answers = [
        link.call("Synchronize", piece, nri_pb2.SynchronizeResponse, LONG)
        for piece in (
            nri_pb2.SynchronizeRequest(pods=[POD], more=True),
            nri_pb2.SynchronizeRequest(containers=[container("one")], more=True),
            nri_pb2.SynchronizeRequest(containers=[container("two")]),
        )
    ]
    assert [answer.more for answer in answers] == [True, True, False]
    assert [len(answer.update) for answer in answers] == [0, 0, 2]
    assert set(peer.policy.containers) == {ContainerId("one"), ContainerId("two")}


def test_a_synchronize_without_end_ends_the_connection(peer: Peer) -> None:
    link, _ = peer.register()
    configure(link)
    pod = nri_pb2.PodSandbox(id="pod", annotations=write_entries({"blob": "x" * (3 << 20)}))
    piece = nri_pb2.SynchronizeRequest(pods=[pod], more=True).SerializeToString()
    codes = [link.exchange("Synchronize", piece, LONG).code for _ in range(43)]
    assert set(codes[:42]) == {0}
    assert codes[42] == Code.RESOURCE_EXHAUSTED
    assert peer.reason().startswith("Synchronize: more than 128 MiB of pods and containers")
    assert peer.synchronize(), "and the next one is tried"


@pytest.mark.parametrize(
    ("pieces", "each"),
    [
        pytest.param(1, 1_000_000, id="all in one piece, before it takes memory"),
        pytest.param(3, 7_000, id="a few in each piece"),
    ],
)
def test_a_synchronize_of_very_many_empty_containers_ends_the_connection(
    peer: Peer, pieces: int, each: int
) -> None:
    link, _ = peer.register()
    configure(link)
    one = nri_pb2.SynchronizeRequest(containers=[nri_pb2.Container()]).SerializeToString()
    piece = one * each + nri_pb2.SynchronizeRequest(more=True).SerializeToString()
    codes = [link.exchange("Synchronize", piece, LONG).code for _ in range(pieces)]
    assert codes == [0] * (pieces - 1) + [Code.RESOURCE_EXHAUSTED]
    assert peer.reason().startswith("Synchronize: more than 20000 pods and containers")
    assert peer.synchronize(), "and the next one is tried"


@dataclass(slots=True)
class Clock:
    """Time that only moves when told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class SuspendedEngine(Engine):
    """The process is asleep for longer than the runtime waits in its first Synchronize.

    `is_answered`: what is waited for from then on.
    """

    def __init__(self, clock: Clock, is_answered: threading.Event) -> None:
        super().__init__(MACHINE, Config())
        self.clock = clock
        self.is_answered = is_answered

    def synchronize(
        self,
        containers: Sequence[Container],
        advice: Mapping[ContainerId, Advice] = MappingProxyType({}),
        unread: Mapping[ContainerId, Exception] = MappingProxyType({}),
    ) -> Adopted:
        if not self.clock.now:
            self.clock.now += LONG + 1
            self.is_answered.wait(LONG)
        return super().synchronize(containers, advice, unread)


@pytest.mark.parametrize("is_stood_in", [False, True])
def test_synchronize_answered_too_late_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, is_stood_in: bool
) -> None:
    look_around, close = getattr(Session, "_look_around"), Session.close  # noqa: B009
    closers: list[Session] = []

    def look_around_late(session: Session) -> str:
        # Meanwhile the other thread reads on ...
        time.sleep(0.1)
        return str(look_around(session))

    def close_slowly(session: Session) -> None:
        close(session)
        # ... and is the first to go on after the end that is made here.
        closers.append(session)
        time.sleep(0.2 if len(closers) == 1 else 0)

    monkeypatch.setattr(Session, "_look_around", look_around_late)
    monkeypatch.setattr(Session, "close", close_slowly)
    clock = Clock()
    is_answered = threading.Event()
    if not is_stood_in:
        is_answered.set()
    peer = Peer(policy=SuspendedEngine(clock, is_answered), clock=clock)
    try:
        link, _ = peer.register()
        configure(link)
        link.exchange("Synchronize", b"", LONG)
        is_answered.set()
        assert peer.reason() == "Synchronize was answered too late"
        peer.synchronize()
    finally:
        peer.end()


def test_preinstalled_plugin_is_ready_once_it_knows_what_runs_and_ends_with_its_runtime() -> None:
    peer = Peer(Identity(is_preinstalled=True))
    link, _ = peer.register()
    configure(link, "containerd", "2.1.9", "")
    assert not peer.plugin.wait_until_ready(0.05)
    request = nri_pb2.SynchronizeRequest(containers=[KNOWN])
    link.call("Synchronize", request, nri_pb2.SynchronizeResponse, LONG)
    assert peer.plugin.wait_until_ready(LONG)
    assert set(peer.policy.containers) == {ContainerId("known")}
    link.close()
    peer.thread.join(LONG)
    assert not peer.thread.is_alive()
    assert peer.disconnections.get(timeout=LONG).retry_seconds is None


def test_preinstalled_plugin_leaves_a_runtime_that_would_not_tell_what_runs() -> None:
    peer = Peer(Identity(is_preinstalled=True))
    link, _ = peer.register()
    # An error here would make this runtime end itself, so it gets its answer before we leave.
    assert configure(link, "containerd", "1.7.24~ds1", "").events == EVENT_MASK
    left = peer.disconnections.get(timeout=LONG)
    assert left.retry_seconds is None
    assert "containerd 1.7.24~ds1 does not tell pre-installed plugins what runs" in left.reason
    assert "run it as a service" in left.reason
    peer.end()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        pytest.param(method, message, id=name)
        for name, method, message in (
            ("created", "CreateContainer", nri_pb2.CreateContainerRequest(container=NAMELESS)),
            ("updated", "UpdateContainer", nri_pb2.UpdateContainerRequest(container=NAMELESS)),
            ("stopped", "StopContainer", nri_pb2.StopContainerRequest(container=NAMELESS)),
            ("started", "PostStartContainer", nri_pb2.StartContainerRequest(container=NAMELESS)),
            ("removed", "RemoveContainer", nri_pb2.StartContainerRequest(container=NAMELESS)),
            (
                "said to run",
                "StateChange",
                nri_pb2.StateChangeEvent(event=nri_pb2.POST_START_CONTAINER, container=NAMELESS),
            ),
            ("listed", "Synchronize", nri_pb2.SynchronizeRequest(containers=[NAMELESS, KNOWN])),
            ("in a pod without an id", "StopPodSandbox", nri_pb2.StartContainerRequest()),
        )
    ],
)
def test_container_without_an_id_is_passed_over(
    peer: Peer, method: str, message: ProtoMessage
) -> None:
    link = peer.synchronize()
    link.call(
        "CreateContainer",
        nri_pb2.CreateContainerRequest(container=KNOWN),
        nri_pb2.CreateContainerResponse,
        LONG,
    )
    reply = link.exchange(method, message.SerializeToString(), LONG)
    assert reply.code == 0
    assert peer.plugin.settle()
    assert set(peer.policy.containers) == {"known"}
    assert set(peer.policy.grants) == {"known"}
    assert b"nameless" not in reply.payload
    updates = nri_pb2.SynchronizeResponse.FromString(reply.payload).update
    assert {one.container_id for one in updates} <= {"known"}
    assert peer.calls.empty(), "no update that follows"

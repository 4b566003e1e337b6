"""Law of answers: each call gets one, whole, whatever thread gives it and whenever it is ready."""

import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.nri.api import nri_pb2, ttrpc_pb2
from pinfold.nri.dispatch.report import Answered, Crashed, Happening
from pinfold.nri.plugin.plugin import Plugin, RuntimeLink, Timing
from pinfold.nri.plugin.service import PLUGIN_SERVICE
from pinfold.nri.wire.connection import Connection, Role
from pinfold.nri.wire.mux import FrameDecoder, encode_message
from pinfold.nri.wire.ttrpc import Message, MessageDecoder, MessageType
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.topology.made.spec import machine_from_spec

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
DEADLINE_SECONDS = 0.01
LONG = 5.0
TIMING = Timing(deadline_seconds=DEADLINE_SECONDS, handshake_seconds=LONG)
SERVED = 1
"""The multiplexed connection on which the plugin is called."""


class Sent(NamedTuple):
    """A call of the runtime, and how long the policy, or its log, takes over it."""

    method: str
    think_seconds: float
    report_seconds: float


class Thinker(Engine):
    """Takes its time over creations, as told by the name of the container."""

    def create(self, container: Container) -> Decision:
        time.sleep(float(container.name))
        return super().create(container)


class Runtime:
    """A runtime's end without any code of ours but the encoding: it keeps all that is answered."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self._sockets = [theirs]
        self.socket.settimeout(LONG)
        self.reports: list[float] = []
        self.crashes: list[Crashed] = []
        self.wire = Connection(Role.RUNTIME)
        self.answers: Counter[int] = Counter()
        self._frames, self._messages = FrameDecoder(), MessageDecoder()
        link = RuntimeLink(connect=self._connect)
        self.plugin = Plugin(Thinker(MACHINE, Config()), link, self._report, timing=TIMING)
        self.thread = threading.Thread(target=self.plugin.run, name="plugin")
        self.thread.start()

    def _connect(self) -> socket.socket:
        if not self._sockets:
            raise ConnectionRefusedError("the law is for one connection")
        return self._sockets.pop()

    def _report(self, happening: Happening) -> None:
        if isinstance(happening, Crashed):
            self.crashes.append(happening)
        if isinstance(happening, Answered) and self.reports:
            time.sleep(self.reports.pop(0))

    def handshake(self) -> None:
        """Register, configure and synchronize with nothing running."""
        register = b""
        while not register:
            [*calls] = self.wire.receive(self.socket.recv(4096))
            register = b"".join(self.wire.respond(one.stream_id, b"") for one in calls)
        configure = nri_pb2.ConfigureRequest(runtime_name="law").SerializeToString()
        self.socket.sendall(register + self.call("Configure", configure))
        self.socket.sendall(self.call("Synchronize", b""))
        self.take(2)

    def call(self, method: str, payload: bytes) -> bytes:
        return self.wire.request(PLUGIN_SERVICE, method, payload)[1]

    def take(self, answers: int) -> None:
        """Read until there are so many answers in all."""
        while self.answers.total() < answers:
            self._understand(self.socket.recv(1 << 16))

    def end(self) -> None:
        """End the plugin; whatever it sent until then is read."""
        self.plugin.stop()
        self.thread.join(2 * LONG)
        assert not self.thread.is_alive()
        try:
            while chunk := self.socket.recv(1 << 16):
                self._understand(chunk)
        except ConnectionResetError:
            pass  # what the plugin had not read is lost
        self.socket.close()

    def _understand(self, chunk: bytes) -> None:
        assert chunk, "the plugin left"
        for frame in self._frames.feed(chunk):
            if frame.connection_id != SERVED:
                continue
            for message in self._messages.feed(frame.payload):
                assert message.type == MessageType.RESPONSE
                ttrpc_pb2.Response.FromString(message.data)
                self.answers[message.stream_id] += 1
        assert not self._frames.fault


def request(sent: Sent, number: int) -> bytes:
    """The payload of a call, or what is none."""
    container = nri_pb2.Container(
        id=f"c{number}", pod_sandbox_id="pod", name=str(sent.think_seconds)
    )
    pod = nri_pb2.PodSandbox(id="pod", name="pod", namespace="default")
    match sent.method:
        case "CreateContainer":
            create = nri_pb2.CreateContainerRequest(pod=pod, container=container)
            return create.SerializeToString()
        case "PostStartContainer":
            start = nri_pb2.StartContainerRequest(pod=pod, container=container)
            return start.SerializeToString()
        case "StopContainer":
            return b"\xff\xff"
        case _:
            return b""


# Around the deadline, where both threads find an answer at once.
seconds = st.sampled_from([0.0, 0.0, 0.5, 0.9, 0.95, 1.0, 1.0, 1.05, 1.1, 2.0, 4.0]).map(
    lambda part: part * DEADLINE_SECONDS
)
calls = st.lists(
    st.builds(
        Sent,
        method=st.sampled_from(
            [
                "CreateContainer",
                "CreateContainer",
                "CreateContainer",
                "PostStartContainer",
                "StopContainer",
                "Shutdown",
                "Dance",
                "",
            ]
        ),
        think_seconds=seconds,
        report_seconds=st.sampled_from([0.0, 0.0, 0.0, 2 * DEADLINE_SECONDS]),
    ),
    min_size=1,
    max_size=12,
)


def encoded(runtime: Runtime, sent: Iterable[Sent]) -> bytes:
    """The calls as bytes; one without a method is a request that cannot be parsed."""
    data = b""
    for number, one in enumerate(sent):
        if one.method:
            data += runtime.call(one.method, request(one, number))
        else:
            stream_id, _ = runtime.wire.request("", "", b"")
            bad = Message(stream_id=stream_id, type=MessageType.REQUEST, data=b"\xff\xff")
            data += encode_message(SERVED, bad.encode())
    return data


def pieces(data: bytes, cuts: list[float]) -> list[bytes]:
    """Bytes, cut at some parts of their length."""
    places = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


fractions = st.lists(st.floats(0, 1, exclude_max=True), max_size=4)


@settings(max_examples=60, deadline=None)
@given(sent=calls, cuts=fractions)
def test_each_call_gets_one_answer(sent: list[Sent], cuts: list[float]) -> None:
    runtime = Runtime()
    try:
        runtime.handshake()
        runtime.reports += [one.report_seconds for one in sent]
        for piece in pieces(encoded(runtime, sent), cuts):
            runtime.socket.sendall(piece)
            time.sleep(0.0005)
        runtime.take(2 + len(sent))
        # Whoever comes second has finished by then.
        assert runtime.plugin.settle()
        runtime.socket.sendall(runtime.call("Shutdown", b""))
        runtime.take(3 + len(sent))
    finally:
        runtime.end()
    assert set(runtime.answers.values()) == {1}
    assert runtime.answers.total() == 3 + len(sent)
    assert runtime.crashes == []


@settings(max_examples=40, deadline=None)
@given(sent=calls, cut=st.floats(0, 1), pause=seconds)
def test_no_call_gets_two_answers_where_the_runtime_leaves_in_its_midst(
    sent: list[Sent], cut: float, pause: float
) -> None:
    runtime = Runtime()
    try:
        runtime.handshake()
        data = encoded(runtime, sent)
        runtime.socket.sendall(data[: int(cut * len(data))])
        time.sleep(pause)
        runtime.socket.shutdown(socket.SHUT_WR)
    finally:
        runtime.end()
    assert set(runtime.answers.values()) == {1}
    assert runtime.answers.total() <= 2 + len(sent)
    assert runtime.crashes == []

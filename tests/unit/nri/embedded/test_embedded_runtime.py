"""The embedded runtime without the daemon: its calls, their order, and what it puts up with."""

import queue
import socket
import threading
from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime, RequestError
from pinfold.nri.embedded.runtime_dialects import NEWEST, Dialect, split_synchronize
from pinfold.nri.plugin.service import PLUGIN_SERVICE, RUNTIME_SERVICE
from pinfold.nri.wire.connection import Call, Connection, Rejection, Reply, Role
from pinfold.nri.wire.ttrpc import Code
from tests.unit.nri.dialects import CONTAINERD_1_7, CONTAINERD_2_1

M = TypeVar("M", bound=Message)
LONG = 5.0
ALL_EVENTS = 0x7FF


class BarePlugin:
    """A plugin that notes every call and answers with what the test laid out for its method."""

    def __init__(self, runtime: EmbeddedRuntime, events: int = ALL_EVENTS) -> None:
        self.runtime = runtime
        self.calls: list[tuple[str, bytes]] = []
        self.answers: dict[str, Message | Code | None] = {
            "Configure": nri_pb2.ConfigureResponse(events=events)
        }
        self.replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.connection = Connection(Role.PLUGIN)
        self.socket = runtime.connect()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def call(self, method: str, message: Message) -> Reply:
        self.send(method, message)
        return self.replies.get(timeout=LONG)

    def send(self, method: str, message: Message) -> None:
        data = self.connection.request(RUNTIME_SERVICE, method, message.SerializeToString())[1]
        self.socket.sendall(data)

    def register(self, index: str = "10") -> None:
        request = nri_pb2.RegisterPluginRequest(plugin_name="bare", plugin_idx=index)
        assert self.call("RegisterPlugin", request).code == 0
        assert self.runtime.wait_until_synchronized(LONG)

    def methods(self) -> list[str]:
        names: list[str] = []
        for method, payload in self.calls:
            if method == "StateChange":
                change = nri_pb2.StateChangeEvent.FromString(payload)
                names.append(nri_pb2.Event.Name(change.event))
            else:
                names.append(method)
        return names

    def request(self, method: str, kind: type[M]) -> M:
        return next(kind.FromString(payload) for name, payload in self.calls if name == method)

    def _run(self) -> None:
        while chunk := self._receive():
            for event in self.connection.receive(chunk):
                if isinstance(event, Reply):
                    self.replies.put(event)
                elif isinstance(event, Call):
                    self._serve(event)

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(1 << 20)
        except OSError:
            return b""

    def _serve(self, call: Call) -> None:
        assert call.service == PLUGIN_SERVICE
        self.calls.append((call.method, call.payload))
        answer = self.answers.get(call.method, nri_pb2.Empty())
        if isinstance(answer, Code):
            data = self.connection.respond(call.stream_id, Rejection(answer, "as the test wants"))
        elif answer is not None:
            data = self.connection.respond(call.stream_id, answer.SerializeToString())
        else:
            return
        self.socket.sendall(data)


Plugins = Generator[BarePlugin]


def connected(dialect: Dialect, timeout: float = 2.0) -> Plugins:
    plugin = BarePlugin(EmbeddedRuntime(dialect, timeout))
    plugin.register()
    plugin.calls.clear()
    yield plugin
    end(plugin)


def end(plugin: BarePlugin) -> None:
    plugin.runtime.drop()
    plugin.thread.join(LONG)
    assert not plugin.thread.is_alive()
    plugin.socket.close()


@pytest.fixture(name="plugin")
def fixture_plugin() -> Plugins:
    yield from connected(NEWEST)


@pytest.fixture(name="old")
def fixture_old() -> Plugins:
    yield from connected(CONTAINERD_1_7)


@pytest.fixture(name="hasty")
def fixture_hasty() -> Plugins:
    # Less patient than others, and still for long enough to get through the handshake.
    yield from connected(NEWEST, timeout=1.0)


POD = nri_pb2.PodSandbox(id="pod", name="pod")


def container(name: str = "c") -> nri_pb2.Container:
    return nri_pb2.Container(id=name, pod_sandbox_id="pod", name=name)


def cpus(runtime: EmbeddedRuntime, name: str = "c") -> str:
    return runtime.containers[name].linux.resources.cpu.cpus


def update(name: str, wanted: str) -> nri_pb2.ContainerUpdate:
    message = nri_pb2.ContainerUpdate(container_id=name)
    message.linux.resources.cpu.cpus = wanted
    return message


def live(runtime: EmbeddedRuntime) -> None:
    """A container's whole life."""
    runtime.run_pod(POD)
    runtime.create(container())
    runtime.start("c")
    runtime.update("c", nri_pb2.LinuxResources())
    runtime.stop("c")
    runtime.remove_pod("pod")


LIFE = [
    ("RunPodSandbox", "RUN_POD_SANDBOX"),
    ("CreateContainer", "CreateContainer"),
    ("PostCreateContainer", "POST_CREATE_CONTAINER"),
    ("StartContainer", "START_CONTAINER"),
    ("PostStartContainer", "POST_START_CONTAINER"),
    ("UpdateContainer", "UpdateContainer"),
    ("PostUpdateContainer", "POST_UPDATE_CONTAINER"),
    ("StopContainer", "StopContainer"),
    ("StopPodSandbox", "STOP_POD_SANDBOX"),
    ("RemoveContainer", "REMOVE_CONTAINER"),
    ("RemovePodSandbox", "REMOVE_POD_SANDBOX"),
]


def test_newer_runtimes_call_a_method_for_every_event(plugin: BarePlugin) -> None:
    live(plugin.runtime)
    assert plugin.methods() == [method for method, _ in LIFE]


def test_older_runtimes_send_most_events_as_state_changes(old: BarePlugin) -> None:
    live(old.runtime)
    assert old.methods() == [change for _, change in LIFE]


def test_unimplemented_event_is_sent_again_as_a_state_change(plugin: BarePlugin) -> None:
    plugin.answers["RunPodSandbox"] = Code.UNIMPLEMENTED
    plugin.runtime.run_pod(POD)
    assert plugin.methods() == ["RunPodSandbox", "RUN_POD_SANDBOX"]


def test_only_events_asked_for_are_sent() -> None:
    create_only = BarePlugin(EmbeddedRuntime(), events=1 << 3)
    create_only.register()
    create_only.calls.clear()
    live(create_only.runtime)
    assert create_only.methods() == ["CreateContainer"]
    end(create_only)


@pytest.mark.parametrize(
    ("dialect", "timeout"),
    [
        pytest.param(CONTAINERD_1_7, 0, id="old runtimes do not tell how long they wait"),
        pytest.param(CONTAINERD_2_1, 2000, id="newer ones do, in milliseconds"),
    ],
)
def test_configure_names_runtime_and_patience(dialect: Dialect, timeout: int) -> None:
    plugin = BarePlugin(EmbeddedRuntime(dialect))
    plugin.register()
    request = plugin.request("Configure", nri_pb2.ConfigureRequest)
    assert (request.runtime_name, request.runtime_version) == ("containerd", dialect.version)
    assert request.request_timeout == timeout
    assert plugin.methods() == ["Configure", "Synchronize"]
    end(plugin)


@pytest.mark.parametrize("index", ["", "1", "100", "1x"])
def test_index_must_have_two_digits_and_the_connection_stays_open(index: str) -> None:
    plugin = BarePlugin(EmbeddedRuntime())
    request = nri_pb2.RegisterPluginRequest(plugin_name="bare", plugin_idx=index)
    assert plugin.call("RegisterPlugin", request).code == Code.UNKNOWN
    assert plugin.call("Dance", request).code == Code.UNIMPLEMENTED
    end(plugin)


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        pytest.param(CONTAINERD_1_7, 0x800, id="older runtimes know no updates of pods"),
        pytest.param(NEWEST, 0x4000, id="newer ones know three events more"),
    ],
)
def test_events_nobody_knows_end_the_connection(dialect: Dialect, events: int) -> None:
    plugin = BarePlugin(EmbeddedRuntime(dialect), events=events)
    plugin.send("RegisterPlugin", nri_pb2.RegisterPluginRequest(plugin_idx="10"))
    plugin.thread.join(LONG)
    assert plugin.methods() == ["Configure"]
    end(plugin)


def test_adjustment_and_updates_reach_the_containers(plugin: BarePlugin) -> None:
    runtime = plugin.runtime
    runtime.run_pod(POD)
    runtime.create(container("other"))
    response = nri_pb2.CreateContainerResponse(update=[update("other", "2"), update("ghost", "9")])
    response.adjust.linux.resources.cpu.cpus = "0-1"
    response.adjust.linux.resources.cpu.mems = "0"
    plugin.answers["CreateContainer"] = response
    created = runtime.create(container())
    assert (created.linux.resources.cpu.cpus, created.linux.resources.cpu.mems) == ("0-1", "0")
    assert cpus(runtime, "other") == "2"
    assert runtime.update_counts == {"other": 1}


def test_plugins_cpuset_wins_over_the_requests(plugin: BarePlugin) -> None:
    plugin.runtime.run_pod(POD)
    plugin.runtime.create(container())
    plugin.answers["UpdateContainer"] = nri_pb2.UpdateContainerResponse(update=[update("c", "0")])
    plugin.runtime.update("c", nri_pb2.LinuxResources(cpu=nri_pb2.LinuxCPU(cpus="0-1")))
    assert cpus(plugin.runtime) == "0"


def test_refused_creation_fails_with_the_plugins_code_and_leaves_nothing(
    plugin: BarePlugin,
) -> None:
    plugin.answers["CreateContainer"] = Code.FAILED_PRECONDITION
    plugin.runtime.run_pod(POD)
    with pytest.raises(RequestError, match="code = 9 desc = as the test wants"):
        plugin.runtime.create(container())
    assert plugin.runtime.containers == {}


def test_plugin_that_does_not_answer_is_dropped_and_the_container_created_without_it(
    hasty: BarePlugin,
) -> None:
    hasty.answers["CreateContainer"] = None
    hasty.runtime.run_pod(POD)
    hasty.runtime.create(container())
    assert cpus(hasty.runtime) == ""
    hasty.thread.join(LONG)
    assert not hasty.thread.is_alive(), "the connection is closed"


def test_update_waits_for_the_event_under_way(plugin: BarePlugin) -> None:
    plugin.runtime.run_pod(POD)
    plugin.runtime.create(container())
    plugin.answers["StopContainer"] = None
    stop = threading.Thread(target=plugin.runtime.stop, args=("c",), daemon=True)
    stop.start()
    while "StopContainer" not in plugin.methods():
        stop.join(0.001)
    plugin.send("UpdateContainers", nri_pb2.UpdateContainersRequest(update=[update("c", "1")]))
    with pytest.raises(queue.Empty):
        plugin.replies.get(timeout=0.05)
    assert cpus(plugin.runtime) == ""
    plugin.socket.sendall(plugin.connection.respond(last_stream(plugin), b""))
    assert plugin.replies.get(timeout=LONG).code == 0
    assert cpus(plugin.runtime) == "1"
    stop.join(LONG)


def last_stream(plugin: BarePlugin) -> int:
    """Streams of the runtime are odd, one for each call since the connection began."""
    return 2 * (len(plugin.calls) + 2) - 1


def test_failing_update_is_an_error_and_the_others_are_made(plugin: BarePlugin) -> None:
    plugin.runtime.run_pod(POD)
    for name in ("bad", "good"):
        plugin.runtime.create(container(name))
    plugin.runtime.broken_ids.add("bad")
    updates = [update("bad", "0"), update("good", "1"), update("ghost", "2")]
    reply = plugin.call("UpdateContainers", nri_pb2.UpdateContainersRequest(update=updates))
    assert (reply.code, reply.message) == (2, "NRI update of some containers failed")
    assert (cpus(plugin.runtime, "bad"), cpus(plugin.runtime, "good")) == ("", "1")


def test_large_synchronize_is_cut_and_only_the_last_piece_says_so() -> None:
    containers = [nri_pb2.Container(id=str(number), args=["x" * 700_000]) for number in range(13)]
    pieces = split_synchronize([POD], containers)
    assert [piece.more for piece in pieces] == [True, True, False]
    assert all(piece.ByteSize() <= 4 << 20 for piece in pieces)
    assert [one.id for piece in pieces for one in piece.containers] == [
        str(number) for number in range(13)
    ]
    assert [len(piece.pods) for piece in pieces] == [1, 0, 0]


def test_new_connection_replaces_the_old_one(plugin: BarePlugin) -> None:
    newer = plugin.runtime.connect()
    assert isinstance(newer, socket.socket)
    plugin.thread.join(LONG)
    assert not plugin.thread.is_alive()
    newer.close()


def test_a_plugin_that_is_dropped_while_it_is_introduced_is_not_synchronized() -> None:
    runtime = EmbeddedRuntime()

    class Dropping(dict[str, nri_pb2.Container]):
        """Containers of a runtime that drops its plugin when it looks for one to update."""

        def get(self, key: str, default: Any = None) -> Any:
            is_applied.set()
            runtime.drop()
            return super().get(key, default)

    is_applied = threading.Event()
    runtime.containers = Dropping()
    plugin = BarePlugin(runtime)
    plugin.answers["Synchronize"] = nri_pb2.SynchronizeResponse(update=[update("c", "1")])
    request = nri_pb2.RegisterPluginRequest(plugin_name="bare", plugin_idx="10")
    assert plugin.call("RegisterPlugin", request).code == 0
    assert is_applied.wait(LONG)
    assert not runtime.wait_until_synchronized(0.1)
    end(plugin)

"""The proxy before a runtime on paper: who gets which cpus, and gives them back, once."""

import contextlib
import random
import shutil
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.cri.event_stream import EventStream
from pinfold.nri.dispatch.report import (
    Connected,
    Disconnected,
    Released,
    SocketLost,
    Synchronized,
)
from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.policy.model.container import ContainerState
from tests.e2e.api import cri_pb2 as api
from tests.e2e.cri import Cri
from tests.unit.nri.cri.proxied_node import (
    ProxiedNode,
    container_config,
    eventually,
    pod_config,
    proxied_node,
)
from tests.unit.nri.cri.raw_runtime import RawClient


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[ProxiedNode]:
    with proxied_node(tmp_path) as node:
        yield node


def grants(node: ProxiedNode) -> int:
    """How many containers hold something, between two turns."""
    return node.proxy.owner.ask("look", lambda: len(node.engine.grants), 10)


def has_grants(node: ProxiedNode, count: int) -> bool:
    """Whether so many containers hold something, once the turns asked for are over."""
    return grants(node) == count


def releases(node: ProxiedNode) -> int:
    return sum(isinstance(one, Released) for one in node.happenings)


def losses(node: ProxiedNode) -> list[SocketLost]:
    return [one for one in node.happenings if isinstance(one, SocketLost)]


def code(error: grpc.RpcError) -> grpc.StatusCode:
    call: Any = error
    found: grpc.StatusCode = call.code()
    return found


def test_a_container_is_created_on_its_cpus_and_the_others_leave_them(node: ProxiedNode) -> None:
    shared = node.run("shared")
    assert node.cpus(shared) == "1-7"
    own = node.run("own", 2000)
    assert node.cpus(own) == "1-2"
    node.settled()
    assert node.cpus(shared) == "3-7"
    assert node.runtime.containers[own].linux.resources.cpu.mems == "0"


def test_the_policy_shows_the_runtimes_id(node: ProxiedNode) -> None:
    created = node.run("own", 2000)
    node.settled()
    (known,) = node.engine.containers.values()
    assert known.shown_id == created
    assert known.state is ContainerState.RUNNING


def test_a_turn_that_outlives_the_proxys_loop_is_done_and_is_no_fault(
    node: ProxiedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = node.create(node.run_pod("own"), "own", 2000)
    begun, gate = threading.Event(), threading.Event()

    def be_busy() -> None:
        begun.set()
        gate.wait(10)

    node.proxy.owner.submit("busy", be_busy)
    assert begun.wait(10)
    node.kubelet.start_container(created)
    close = node.proxy.actuator.close

    def close_once_the_loop_is_over() -> None:
        gate.set()
        close()

    monkeypatch.setattr(node.proxy.actuator, "close", close_once_the_loop_is_over)
    node.end_proxy()
    assert [*node.states()] == [ContainerState.RUNNING]
    assert node.faults() == []


def test_fields_that_nobody_here_knows_reach_the_runtime(node: ProxiedNode) -> None:
    pod = node.run_pod("odd")
    sent: list[bytes] = []
    node.server.watch = lambda _, request: sent.append(request)
    config = container_config("c", 1000)
    config.envs.add(key="SECRET", value=b"\xff\x00")
    config.annotations["some"] = "thing"
    request = api.CreateContainerRequest(
        pod_sandbox_id=pod, config=config, sandbox_config=pod_config("odd", "")
    )
    # Field 99, a text: of a CRI that is newer than all of us.
    raw = request.SerializeToString() + b"\x9a\x06\x03new"
    client = RawClient(node.socket)
    client.unary("CreateContainer", raw)
    client.channel.close()
    got = api.CreateContainerRequest.FromString(sent[0])
    got.config.linux.resources.ClearField("cpuset_cpus")
    got.config.linux.resources.ClearField("cpuset_mems")
    assert got == api.CreateContainerRequest.FromString(raw)
    assert b"\x9a\x06\x03new" in sent[0]


def test_a_container_with_devices_is_looked_up_aside_and_placed(node: ProxiedNode) -> None:
    pod = node.run_pod("own")
    config = container_config("own", 2000)
    config.devices.add(container_path="/dev/null", host_path="/dev/null", permissions="rw")
    created = node.kubelet.create_container(pod, config, pod_config("own", ""))
    node.kubelet.start_container(created)
    assert node.cpus(created) == "1-2"
    (known,) = node.engine.containers.values()
    assert [one.path for one in known.devices] == ["/dev/null"]


def test_bytes_that_are_no_message_are_the_runtimes_to_refuse(node: ProxiedNode) -> None:
    client = RawClient(node.socket)
    with pytest.raises(grpc.RpcError):
        client.unary("CreateContainer", b"\xff\xff\xff")
    client.channel.close()
    assert node.server.calls[-1] == "CreateContainer"
    assert has_grants(node, 0)


def test_a_refused_placement_is_exhaustion_with_the_whole_reason(node: ProxiedNode) -> None:
    pod = node.run_pod("big")
    with pytest.raises(grpc.RpcError) as found:
        node.create(pod, "big", 64_000)
    assert code(found.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "64" in str(found.value)
    assert "CreateContainer" not in node.server.calls
    assert eventually(lambda: not node.engine.containers)


def test_a_fault_of_the_policy_fails_no_call_and_the_container_is_placed_where_it_runs(
    node: ProxiedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ValueError("a fault")

    with monkeypatch.context() as patched:
        patched.setattr(node.engine, "create", fail)
        patched.setattr(node.engine, "update", fail)
        own = node.run("own", 2000)
        assert eventually(lambda: has_grants(node, 1))
        node.settled()
        assert node.cpus(own) == "1-2"
        resources = api.LinuxContainerResources(cpu_shares=3072, cpu_quota=300_000)
        node.kubelet.update_resources(own, resources)
    assert node.runtime.containers[own].linux.resources.cpu.quota.value == 300_000
    assert {str(one.error) for one in node.faults()} == {"a fault"}
    node.happenings.clear()


@pytest.mark.parametrize("end", ["stop", "remove", "stop_pod", "remove_pod"])
def test_cpus_come_back_once_the_runtime_said_so(node: ProxiedNode, end: str) -> None:
    shared, own = node.run("shared"), node.run("own", 2000)
    gate = threading.Event()
    node.server.before = lambda method: None if method[:2] not in ("St", "Re") else _pass(gate)
    pod = node.runtime.containers[own].pod_sandbox_id
    calls = {
        "stop": lambda: node.kubelet.stop_container(own),
        "remove": lambda: node.kubelet.remove_container(own),
        "stop_pod": lambda: node.kubelet.stop_pod(pod),
        "remove_pod": lambda: node.kubelet.remove_pod(pod),
    }
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(calls[end])
        time.sleep(0.1)
        assert has_grants(node, 2), "the call is under way"
        gate.set()
        ended.result(10)
    assert has_grants(node, 1)
    node.settled()
    assert node.cpus(shared) == "1-7"


def _pass(gate: threading.Event) -> None:
    gate.wait(10)


def test_a_container_that_was_only_created_keeps_its_cpus_when_it_is_stopped(
    node: ProxiedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime passes over a stop of what does not run yet, and starts it later."""
    pod = node.run_pod("own")
    created = node.create(pod, "own", 2000)
    with monkeypatch.context() as patched:
        patched.setattr(node.server, "exit", str)
        node.kubelet.stop_container(created)
    listed = node.server.calls.count("ListContainers")
    assert eventually(lambda: node.server.calls.count("ListContainers") > listed + 2)
    assert has_grants(node, 1)
    node.kubelet.start_container(created)
    assert node.cpus(created) == "1-2"
    assert has_grants(node, 1)
    node.kubelet.stop_container(created)
    assert has_grants(node, 0)


def test_a_call_that_fails_gives_nothing_back(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    node.server.before = _failing("StopContainer")
    with pytest.raises(grpc.RpcError):
        node.kubelet.stop_container(own)
    assert has_grants(node, 1)


def _failing(*methods: str) -> Any:
    def fail(method: str) -> None:
        if method in methods:
            raise RequestError(f"{method} failed")

    return fail


def test_a_creation_that_fails_gives_its_cpus_back_once_and_may_be_tried_again(
    node: ProxiedNode,
) -> None:
    pod = node.run_pod("own")
    node.server.before = _failing("CreateContainer")
    for number in range(3):
        with pytest.raises(grpc.RpcError):
            node.create(pod, "own", 2000)
        assert has_grants(node, 0)
        assert eventually(lambda: releases(node) == number + 1)  # noqa: B023 -- asked at once
    node.server.before = lambda _: None
    created = node.create(pod, "own", 2000)
    node.kubelet.start_container(created)
    assert node.cpus(created) == "1-2"
    assert has_grants(node, 1)


@pytest.mark.parametrize(
    ("milli", "statuses"),
    [
        pytest.param(2000, {"", "UNKNOWN"}, id="the second finds the name taken"),
        pytest.param(64_000, {"RESOURCE_EXHAUSTED"}, id="both are refused"),
    ],
)
def test_of_two_creations_of_one_container_at_once_none_passes_unplaced(
    node: ProxiedNode, milli: int, statuses: set[str]
) -> None:
    pod, sent, gate = node.run_pod("own"), list[bytes](), threading.Event()
    node.server.watch = lambda _, request: sent.append(request)
    node.proxy.owner.submit("busy", lambda: gate.wait(10))

    def create(_: int) -> str:
        try:
            node.create(pod, "own", milli)
        except grpc.RpcError as error:
            return code(error).name
        return ""

    with ThreadPoolExecutor(2) as pool:
        created = [pool.submit(create, number) for number in range(2)]
        time.sleep(0.3)
        gate.set()
        assert {one.result(10) for one in created} == statuses
    creations = [one for one in sent if b"own" in one]
    assert len(creations) == (2 if "" in statuses else 0)
    for one in creations:
        request = api.CreateContainerRequest.FromString(one)
        assert request.config.linux.resources.cpuset_cpus == "1-2"
    assert has_grants(node, 1 if "" in statuses else 0)


def test_what_came_of_a_cancelled_creation_is_learned_from_a_list(node: ProxiedNode) -> None:
    pod = node.run_pod("own")
    gate = threading.Event()
    node.server.after = lambda method: _pass(gate) if method == "CreateContainer" else None
    impatient = Cri(node.socket, 2.0)
    with pytest.raises(grpc.RpcError):
        node.create(pod, "own", 2000, cri=impatient)
    impatient.close()
    (created,) = node.runtime.containers
    assert eventually(lambda: [one.shown_id for one in known(node)] == [created])
    gate.set()
    assert has_grants(node, 1)
    # The kubelet asks again: the name is taken, and the cpus are still its own.
    with pytest.raises(grpc.RpcError, match="is reserved"):
        node.create(pod, "own", 2000)
    assert has_grants(node, 1)
    node.kubelet.start_container(created)
    assert node.cpus(created) == "1-2"


def known(node: ProxiedNode) -> list[Any]:
    return list(node.snapshot().containers.values())


def test_a_cancelled_creation_that_came_to_nothing_gives_its_cpus_back(node: ProxiedNode) -> None:
    pod = node.run_pod("own")
    gate = threading.Event()

    def wait_and_fail(method: str) -> None:
        if method == "CreateContainer":
            gate.wait(10)
            raise RequestError("too late")

    node.server.before = wait_and_fail
    impatient = Cri(node.socket, 2.0)
    with pytest.raises(grpc.RpcError):
        node.create(pod, "own", 2000, cri=impatient)
    impatient.close()
    assert has_grants(node, 1), "nobody knows yet"
    gate.set()
    assert eventually(lambda: grants(node) == 0)
    node.settled()
    assert releases(node) == 1


def test_a_start_that_fails_gives_the_cpus_of_a_container_that_is_over_back(
    node: ProxiedNode,
) -> None:
    pod = node.run_pod("own")
    created = node.create(pod, "own", 2000)

    def die(method: str) -> None:
        if method == "StartContainer":
            node.runtime.stop(created)
            raise RequestError("it does not start")

    node.server.before = die
    with pytest.raises(grpc.RpcError):
        node.kubelet.start_container(created)
    assert eventually(lambda: grants(node) == 0)


def test_an_exit_by_itself_is_heard_of(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    node.server.exit(own)
    assert eventually(lambda: grants(node) == 0)
    assert eventually(lambda: node.states() == [ContainerState.EXITED])


def test_an_exit_without_an_event_is_seen_in_the_list(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    node.runtime.stop(own)
    assert eventually(lambda: grants(node) == 0)


def test_a_container_created_past_the_proxy_is_adopted(node: ProxiedNode) -> None:
    shared = node.run("shared")
    own = node.run("own", 2000, node.direct)
    assert eventually(lambda: grants(node) == 2)
    node.settled()
    assert node.cpus(own) == "1-2"
    assert node.cpus(shared) == "3-7"


def test_of_two_instances_that_are_listed_as_running_the_newer_one_counts(
    node: ProxiedNode,
) -> None:
    old = node.run("own", 2000, node.direct)
    assert eventually(lambda: grants(node) == 1)
    pod = node.runtime.containers[old].pod_sandbox_id
    new = node.create(pod, "own", 2000, attempt=1, cri=node.direct)
    node.direct.start_container(new)
    assert eventually(lambda: [one.shown_id for one in known(node)] == [new])
    listed = node.server.calls.count("ListContainers")
    assert eventually(lambda: node.server.calls.count("ListContainers") > listed + 1, 15)
    assert [one.shown_id for one in known(node)] == [new]


def test_an_update_keeps_our_cpus_and_a_resize_moves_them(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    node.kubelet.update_resources(own, api.LinuxContainerResources(cpuset_cpus="0-7"))
    assert node.cpus(own) == "1-2"
    resources = api.LinuxContainerResources(cpu_shares=3072, cpu_quota=300_000)
    node.kubelet.update_resources(own, resources)
    assert node.cpus(own) == "1-3"
    assert node.runtime.containers[own].linux.resources.cpu.shares.value == 3072


def test_a_resize_that_is_refused_never_reaches_the_runtime(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    before = len(node.server.calls)
    resources = api.LinuxContainerResources(cpu_shares=32 * 1024, cpu_quota=3_200_000)
    with pytest.raises(grpc.RpcError) as found:
        node.kubelet.update_resources(own, resources)
    assert code(found.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "UpdateContainerResources" not in node.server.calls[before:]
    assert node.cpus(own) == "1-2"


def test_a_resize_that_fails_at_the_runtime_is_undone(node: ProxiedNode) -> None:
    shared, own = node.run("shared"), node.run("own", 2000)
    node.settled()
    node.server.before = _failing("UpdateContainerResources")
    resources = api.LinuxContainerResources(cpu_shares=3072, cpu_quota=300_000)
    with pytest.raises(grpc.RpcError):
        node.kubelet.update_resources(own, resources)
    node.server.before = lambda _: None
    node.settled()
    assert (node.cpus(own), node.cpus(shared)) == ("1-2", "3-7")
    assert {one.resources.cpu_request_milli for one in known(node)} == {0, 2000}


@pytest.mark.parametrize("succeeds", [True, False])
def test_what_an_update_takes_goes_to_others_once_the_runtime_agreed(
    node: ProxiedNode, succeeds: bool
) -> None:
    own = node.run("own", 4000)
    gate, is_begun = threading.Event(), threading.Event()

    def wait(method: str) -> None:
        if method == "UpdateContainerResources" and not is_begun.is_set():
            is_begun.set()
            gate.wait(10)
            if not succeeds:
                raise RequestError("it cannot be updated")

    node.server.before = wait
    resources = api.LinuxContainerResources(cpu_shares=2048, cpu_quota=200_000)
    with ThreadPoolExecutor(1) as pool:
        updated = pool.submit(node.kubelet.update_resources, own, resources)
        assert is_begun.wait(5)
        with pytest.raises(grpc.RpcError) as found:
            node.run("early", 5000)
        assert code(found.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert node.cpus(own) == "1-4"
        gate.set()
        failed = updated.exception(10) is not None
    assert failed is not succeeds
    node.settled()
    assert node.cpus(own) == ("1-2" if succeeds else "1-4")
    late = node.run("late", 5000 if succeeds else 3000)
    assert node.cpus(late) == ("3-7" if succeeds else "5-7")


def test_an_update_that_gives_cpus_and_takes_memory_does_both(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    for cpus, memory in ((2, 2 << 30), (3, 1 << 30), (2, 3 << 30)):
        resources = api.LinuxContainerResources(
            cpu_shares=1024 * cpus, cpu_quota=100_000 * cpus, memory_limit_in_bytes=memory
        )
        node.kubelet.update_resources(own, resources)
        node.settled()
        assert node.cpus(own) == f"1-{cpus}"
        (container,) = known(node)
        assert container.resources.cpu_request_milli == 1000 * cpus
        assert container.resources.memory_limit_bytes == memory


def test_every_reader_gets_every_event(node: ProxiedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    client = RawClient(node.socket)
    opened: Any = getattr(EventStream, "_opened")  # noqa: B009
    ready: list[EventStream] = []

    async def opened_for_one_more(stream: EventStream) -> None:
        await opened(stream)
        ready.append(stream)

    monkeypatch.setattr(EventStream, "_opened", opened_for_one_more)
    readers = [client.stream("GetContainerEvents", b"", timeout=20) for _ in range(3)]
    assert eventually(lambda: len(ready) == len(readers))
    own = node.run("own", 2000)
    for reader in readers:
        event = next(reader)
        assert own.encode() in event
        reader.cancel()
    client.channel.close()
    assert has_grants(node, 1)


def test_a_proxy_that_ends_and_comes_back_moves_nobody(node: ProxiedNode) -> None:
    shared, own = node.run("shared"), node.run("own", 2000)
    node.settled()
    before = {one: node.cpus(one) for one in (shared, own)}
    counts = dict(node.runtime.update_counts)
    node.end_proxy()
    assert not node.socket.exists()
    node.start_proxy()
    assert node.proxy.wait_until_ready(10)
    node.settled()
    assert {one: node.cpus(one) for one in (shared, own)} == before
    assert dict(node.runtime.update_counts) == counts
    assert {one.shown_id for one in known(node)} == {shared, own}
    node.kubelet.stop_container(own)
    node.settled()
    assert node.cpus(shared) == "1-7"


def test_a_runtime_that_ends_and_comes_back_moves_nobody_and_is_looked_at(
    node: ProxiedNode,
) -> None:
    shared, own = node.run("shared"), node.run("own", 2000)
    node.settled()
    node.server.stop()
    assert eventually(lambda: any(isinstance(one, Disconnected) for one in node.happenings))
    node.runtime.stop(own)
    begun = time.monotonic()
    node.server.start(str(node.runtime_socket))
    assert eventually(lambda: node.cpus(shared) == "1-7", 5)
    assert time.monotonic() - begun < 5
    assert sum(isinstance(one, Synchronized) for one in node.happenings) == 1
    assert sum(isinstance(one, Connected) for one in node.happenings) == 2
    assert node.cpus(node.run("late", 1000)) == "1"


def test_a_proxy_before_its_runtime_lets_nobody_in_unplaced(tmp_path: Path) -> None:
    node = ProxiedNode(tmp_path)
    try:
        assert node.proxy.wait_until_ready(10)
        own = node.run("own", 2000)
        node.end_proxy()
        node.server.stop()
        node.start_proxy()
        request = api.CreateContainerRequest().SerializeToString()
        client = RawClient(node.socket)
        with pytest.raises(grpc.RpcError) as found:
            client.unary("CreateContainer", request, wait_for_ready=True)
        assert code(found.value) is grpc.StatusCode.UNAVAILABLE
        client.channel.close()
        node.server.start(str(node.runtime_socket))
        assert node.proxy.wait_until_ready(10)
        assert node.cpus(own) == "1-2"
        assert has_grants(node, 1)
    finally:
        node.close()


def test_a_socket_that_was_deleted_under_the_proxy_is_made_again(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    for _ in range(2):
        told = len(losses(node))
        shutil.rmtree(node.socket.parent)
        while len(losses(node)) == told:
            time.sleep(0.02)
        client = RawClient(node.socket)
        client.unary("Version", b"", wait_for_ready=True)
        client.channel.close()
    assert losses(node) == [SocketLost(str(node.socket))] * 2
    assert node.cpus(own) == "1-2", "by the connection that is there"
    assert node.cpus(node.run("other", 1000)) == "3"


def test_sockets_that_are_deleted_again_and_again_do_not_pile_up(node: ProxiedNode) -> None:
    def listening() -> int:
        # Flags of a socket that listens. Source: proc_net(5), include/linux/net.h.
        lines = Path("/proc/net/unix").read_text().splitlines()
        folder = str(node.socket.parent)
        return sum(" 00010000 " in one and folder in one for one in lines)

    own = node.run("own", 2000)
    for number in range(6):
        shutil.rmtree(node.socket.parent)
        while len(losses(node)) == number:
            time.sleep(0.02)
    assert eventually(lambda: listening() <= 4)
    assert listening() == 4
    assert node.cpus(node.run("other", 1000)) == "3", "by the client of the first socket"
    assert node.cpus(own) == "1-2"


def test_a_file_in_the_place_of_the_proxys_folder_ends_nothing(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    folder = node.socket.parent
    shutil.rmtree(folder)
    folder.touch()
    while not losses(node):
        time.sleep(0.02)
    assert losses(node) == [SocketLost(str(node.socket), "not a directory")]
    assert node.cpus(own) == "1-2", "by the connection that is there"
    folder.unlink()
    while len(losses(node)) == 1:
        time.sleep(0.02)
    assert losses(node)[1:] == [SocketLost(str(node.socket))]
    client = RawClient(node.socket)
    client.unary("Version", b"", wait_for_ready=True)
    client.channel.close()


def test_the_proxys_folder_is_made_again_with_the_mode_that_it_had(node: ProxiedNode) -> None:
    folder = node.socket.parent
    node.end_proxy()
    folder.chmod(0o755)
    node.start_proxy()
    assert node.proxy.wait_until_ready(10)
    shutil.rmtree(folder)
    while not losses(node):
        time.sleep(0.02)
    assert folder.stat().st_mode & 0o777 == 0o755


def test_fifty_calls_at_once_leave_no_cpu_to_two(node: ProxiedNode) -> None:
    def run(number: int) -> str:
        return node.run(f"p{number}", 1000 if number < 5 else 0)

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(run, range(50)))
    node.settled()
    own = [node.cpus(one) for one in made[:5]]
    assert len(set(own)) == 5
    assert {node.cpus(one) for one in made[5:]} == {"6-7"}
    node.proxy.owner.ask("check", node.engine.check, 10)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(node.kubelet.remove_container, made))
    assert has_grants(node, 0)
    assert not node.engine.containers


def test_a_container_whose_cpus_were_taken_while_it_was_created_leaves_them(
    node: ProxiedNode,
) -> None:
    pod = node.run_pod("shared", "besteffort/")
    gate, is_begun = threading.Event(), threading.Event()

    def wait(method: str) -> None:
        if method == "CreateContainer" and not is_begun.is_set():
            is_begun.set()
            gate.wait(10)

    node.server.after = wait
    with ThreadPoolExecutor(1) as pool:
        config = pod_config("shared", "besteffort/")
        shared = pool.submit(
            node.kubelet.create_container, pod, container_config("shared", 0), config
        )
        assert is_begun.wait(5)
        own = node.run("own", 2000)
        gate.set()
        created = shared.result(10)
    node.settled()
    node.kubelet.start_container(created)
    node.settled()
    assert (node.cpus(own), node.cpus(created)) == ("1-2", "3-7")


def test_one_list_that_lacks_a_container_takes_nothing_from_it(node: ProxiedNode) -> None:
    own = node.run("own", 2000)
    hidden = node.runtime.containers.pop(own)
    listed = node.server.calls.count("ListContainers")
    assert eventually(lambda: node.server.calls.count("ListContainers") > listed)
    node.runtime.containers[own] = hidden
    listed = node.server.calls.count("ListContainers")
    assert eventually(lambda: node.server.calls.count("ListContainers") > listed + 2)
    assert has_grants(node, 1)
    del node.runtime.containers[own]
    assert eventually(lambda: grants(node) == 0)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_fails_or_is_given_up_every_cpu_comes_back(node: ProxiedNode, seed: int) -> None:
    draw = random.Random(seed)
    faults = random.Random(seed + 100)

    def maybe_fail(_method: str) -> None:
        chance = faults.random()
        if chance < 0.1:
            raise RequestError("by chance")
        if chance < 0.2:
            time.sleep(0.06)

    node.server.before = node.server.after = maybe_fail
    clients = [Cri(node.socket, 0.05), node.kubelet]

    def live(number: int, chance: float) -> None:
        client = clients[chance < 0.7]
        with contextlib.suppress(grpc.RpcError):
            node.run(f"p{number}", 1000 if chance < 0.3 else 0, client)

    with ThreadPoolExecutor(8) as pool:
        for number in range(40):
            pool.submit(live, number, draw.random())
    node.server.before = node.server.after = lambda _: None
    clients[0].close()
    # The runtime may go on with a call that its caller gave up.
    assert eventually(
        lambda: (
            {one.shown_id for one in known(node) if one.state is ContainerState.RUNNING}
            == {
                one.id
                for one in tuple(node.runtime.containers.values())
                if one.state == nri_pb2.CONTAINER_RUNNING
            }
        )
    )
    node.settled()
    node.proxy.owner.ask("check", node.engine.check, 10)
    exclusive = [cpu for one in node.snapshot().grants.values() for cpu in one.exclusive]
    assert len(exclusive) == len(set(exclusive))
    for pod in list(node.runtime.pods):
        node.kubelet.stop_pod(pod)
        node.kubelet.remove_pod(pod)
    assert eventually(lambda: not node.engine.containers)
    assert grants(node) == 0

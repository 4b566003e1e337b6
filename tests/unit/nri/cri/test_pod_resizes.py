"""Resizes of whole pods through the proxy: checked, asked of the runtime, undone if it fails."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from pinfold.nri.api import cri_proxy_pb2 as cri
from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.cri_server import cri_resources
from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.nri.embedded.kubelet import resources_message
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import QosClass
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.nri.cri.proxied_node import eventually
from tests.unit.nri.cri.raw_runtime import RawClient
from tests.unit.nri.cri.wires import SECONDS, CriWire, NriWire, Started, Wire
from tests.unit.nri.sized_pod import GIB, size, sized_pod

MACHINE = machine_from_spec("socket:1 numa:1 core:10 thread:1 mem:8G")
METHOD = "UpdatePodSandboxResources"


def other(cpus: int) -> PodSpec:
    container = ContainerSpec(name="other", resources=size(cpus))
    return PodSpec(name="other", qos=QosClass.GUARANTEED, containers=(container,))


class PodNode:
    """A pod behind the proxy, on a machine with 9 cpus for pods."""

    def __init__(self, folder: Path, cpus: int) -> None:
        self.wire = CriWire(8 * GIB, folder)
        self.begin_proxy()
        self.pod = sized_pod(cpus)
        assert self.wire.kubelet.start_pods((self.pod,)) == []
        self.pod_id = next(iter(self.wire.runtime.pods))
        self.settled()

    def begin_proxy(self) -> None:
        policy = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
        self.wire.begin(policy, {})

    @property
    def engine(self) -> Engine:
        front = self.wire.front
        assert front is not None
        return front.events.policy

    def settled(self) -> None:
        front = self.wire.front
        assert front is not None
        assert front.settle(SECONDS)

    def shared(self) -> int:
        """How many cpus the containers without cpus of their own have."""
        self.settled()
        ids = {one.name: one.id for one in self.wire.runtime.containers.values()}
        found = {self.wire.runtime.kernel[ids[name]].cpus for name in ("a", "b")}
        assert len(found) == 1
        return len(CpuSet.parse(found.pop()))

    def resize(self, cpus: int) -> None:
        self.wire.kubelet.update_pod(self.pod_id, resources(cpus))

    def request(self, cpus: int) -> bytes:
        message = cri.UpdateSandboxRequest(pod_sandbox_id=self.pod_id, resources=resources(cpus))
        return message.SerializeToString()

    def fail(self, text: str = "failed") -> None:
        """Let the runtime fail resizes of pods."""

        def before(method: str) -> None:
            if method == METHOD:
                raise RequestError(text)

        self.wire.loopback.server.before = before

    def hold(self) -> "Gate":
        return Gate(self)

    def close(self) -> None:
        self.wire.close()
        assert not self.wire.faults


class Gate:
    """Resizes wait at the runtime until one after the other is let go, to succeed or to fail."""

    def __init__(self, node: PodNode) -> None:
        self.arrived = 0
        self._outcomes: list[tuple[threading.Event, list[bool]]] = []
        node.wire.loopback.server.before = self._before

    def _before(self, method: str) -> None:
        if method == METHOD:
            event: threading.Event = threading.Event()
            outcome: list[bool] = []
            self._outcomes.append((event, outcome))
            self.arrived += 1
            event.wait(SECONDS)
            if outcome != [True]:
                raise RequestError("failed")

    def wait(self, count: int) -> None:
        assert eventually(lambda: self.arrived == count)

    def let(self, number: int, *, succeed: bool) -> None:
        event, outcome = self._outcomes[number]
        outcome.append(succeed)
        event.set()


def resources_of(cpus: int) -> nri_pb2.LinuxResources:
    return resources_message(linux_resources(size(cpus), QosClass.GUARANTEED, None))


def resources(cpus: int) -> cri.Resources:
    return cri_resources(nri_pb2.LinuxContainer(resources=resources_of(cpus)))


@contextmanager
def running(folder: Path, cpus: int) -> Generator[PodNode]:
    node = PodNode(folder, cpus)
    try:
        yield node
    finally:
        node.close()


def code(found: pytest.ExceptionInfo[grpc.RpcError]) -> grpc.StatusCode:
    error: Any = found.value
    result: grpc.StatusCode = error.code()
    return result


def test_a_pod_that_grows_has_more_to_share_and_a_smaller_one_less(tmp_path: Path) -> None:
    with running(tmp_path, 3) as node:
        assert node.shared() == 2
        node.resize(5)
        assert node.shared() == 4
        node.resize(5)
        assert node.shared() == 4
        node.resize(2)
        assert node.shared() == 1


def test_a_size_without_room_is_refused_and_the_runtime_is_not_asked(tmp_path: Path) -> None:
    with running(tmp_path, 4) as node:
        with pytest.raises(grpc.RpcError, match="no room to grow") as found:
            node.resize(10)
        assert code(found) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert METHOD not in node.wire.loopback.server.calls
        assert node.shared() == 3


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("failed", grpc.StatusCode.UNKNOWN),
        ("UNIMPLEMENTED: unknown method", grpc.StatusCode.UNIMPLEMENTED),
    ],
)
@pytest.mark.parametrize("cpus", [2, 6])
def test_a_resize_that_fails_at_the_runtime_is_undone_and_its_status_passed_on(
    tmp_path: Path, cpus: int, text: str, status: grpc.StatusCode
) -> None:
    with running(tmp_path, 4) as node:
        node.fail(text)
        with pytest.raises(grpc.RpcError) as found:
            node.resize(cpus)
        assert code(found) is status
        assert node.shared() == 3
        assert node.wire.kubelet.start_pods((other(5),)) == []


def test_what_a_pod_gives_up_is_nobody_elses_until_the_runtime_agreed(tmp_path: Path) -> None:
    with running(tmp_path, 4) as node, ThreadPoolExecutor(1) as pool:
        gate = node.hold()
        resized = pool.submit(node.resize, 2)
        gate.wait(1)
        (refused,) = node.wire.kubelet.start_pods((other(7),))
        assert refused.container == "other"
        assert node.shared() == 3
        gate.let(0, succeed=True)
        resized.result(SECONDS)
        assert node.shared() == 1
        assert node.wire.kubelet.start_pods((replace(other(7), name="again"),)) == []


def test_what_a_pod_grows_by_is_its_own_while_the_runtime_is_asked(tmp_path: Path) -> None:
    with running(tmp_path, 4) as node, ThreadPoolExecutor(1) as pool:
        gate = node.hold()
        resized = pool.submit(node.resize, 6)
        gate.wait(1)
        (refused,) = node.wire.kubelet.start_pods((other(4),))
        assert refused.container == "other"
        gate.let(0, succeed=False)
        with pytest.raises(grpc.RpcError):
            resized.result(SECONDS)
        assert node.shared() == 3
        assert node.wire.kubelet.start_pods((replace(other(5), name="again"),)) == []


@pytest.mark.parametrize("cpus", [2, 6])
def test_a_resize_that_is_cancelled_leaves_the_pod_as_it_was(tmp_path: Path, cpus: int) -> None:
    with running(tmp_path, 4) as node:
        gate = node.hold()
        client = RawClient(tmp_path / "proxy" / "cri.sock")
        call = client.stream(METHOD, node.request(cpus))
        gate.wait(1)
        call.cancel()
        assert eventually(lambda: node.engine.pod_size(only_pod(node)) == size(4))
        gate.let(0, succeed=True)
        assert node.shared() == 3
        node.wire.loopback.server.before = lambda _: None
        node.resize(cpus)
        assert node.shared() == cpus - 1
        client.channel.close()


def only_pod(node: PodNode) -> Any:
    return next(iter(node.engine.containers.values())).pod


def test_of_two_resizes_at_once_the_one_that_the_runtime_took_is_kept(tmp_path: Path) -> None:
    with running(tmp_path, 3) as node, ThreadPoolExecutor(2) as pool:
        gate = node.hold()
        first = pool.submit(node.resize, 5)
        gate.wait(1)
        second = pool.submit(node.resize, 4)
        gate.wait(2)
        gate.let(0, succeed=False)
        with pytest.raises(grpc.RpcError):
            first.result(SECONDS)
        gate.let(1, succeed=True)
        second.result(SECONDS)
        assert node.shared() == 3


def test_the_last_size_outlives_the_proxy_and_is_what_a_failure_goes_back_to(
    tmp_path: Path,
) -> None:
    with running(tmp_path, 3) as node:
        node.resize(5)
        # What its containers have when the proxy ends is what they keep.
        node.settled()
        snapshot = node.engine.snapshot()
        advice = snapshot.advice()
        shown = {one: each.shown_id for one, each in snapshot.containers.items()}
        node.wire.end()
        policy = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
        renamed: Any = {shown[one]: each for one, each in advice.items()}
        node.wire.begin(policy, renamed)
        assert node.shared() == 4
        node.fail()
        with pytest.raises(grpc.RpcError):
            node.resize(6)
        assert node.shared() == 4


def test_a_pod_that_was_run_past_the_proxy_is_resized_as_any_other(tmp_path: Path) -> None:
    with running(tmp_path, 3) as node:
        node.wire.kubelet.remove_pod(node.pod_id)
        assert node.wire.direct.start_pods((replace(node.pod, name="past"),)) == []
        (node.pod_id,) = node.wire.runtime.pods
        assert eventually(lambda: len(node.engine.grants) == 3)
        assert node.shared() == 2
        node.resize(5)
        assert node.shared() == 4


def test_a_pod_that_nobody_knows_is_the_runtimes_to_judge(tmp_path: Path) -> None:
    with running(tmp_path, 3) as node:
        with pytest.raises(grpc.RpcError) as found:
            node.wire.kubelet.update_pod("nobody", resources(4))
        assert code(found) is grpc.StatusCode.NOT_FOUND
        assert METHOD in node.wire.loopback.server.calls


def walk(wire: Wire) -> list[dict[str, str]]:
    """Where containers are after each of some resizes of their pod."""
    policy = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    wire.begin(policy, {})
    front = wire.front
    assert front is not None
    found: list[dict[str, str]] = []
    web = sized_pod(3)
    pod_id = wire.run_pod(web)
    for spec in web.containers:
        wire.start(Started(pod=web, spec=spec, pod_id=pod_id, id=""))
    for cpus in (3, 5, 10, 4, 6, 2):
        with suppress(RequestError):
            wire.update_pod(pod_id, resources_of(cpus))
        assert front.settle(SECONDS)
        containers = wire.runtime.containers.values()
        found.append({one.name: wire.runtime.kernel[one.id].cpus for one in containers})
    wire.close()
    assert not wire.faults
    return found


def test_resizes_come_to_the_same_over_nri_and_over_cri(tmp_path: Path) -> None:
    over_nri = walk(NriWire(8 * GIB))
    assert walk(CriWire(8 * GIB, tmp_path)) == over_nri
    assert len({str(one) for one in over_nri}) == 5

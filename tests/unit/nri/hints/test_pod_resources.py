"""The kubelet's pod-resources service, against a real gRPC server on a socket."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import grpc
import pytest

from pinfold.nri.api import podresources_pb2 as api
from pinfold.nri.hints.pod_resources import ContainerName, PodResources, PodResourcesError
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.sets.cpuset import NodeSet
from tests.unit.nri.hints.pod_resources_service import serve_pod_resources

TRAINER = ContainerName("ml", "train-0", "trainer")


def device(resource: str, *nodes: int) -> api.ContainerDevices:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in nodes])
    return api.ContainerDevices(resource_name=resource, device_ids=["x"], topology=topology)


def pod(namespace: str, name: str, **containers: list[api.ContainerDevices]) -> api.PodResources:
    return api.PodResources(
        namespace=namespace,
        name=name,
        containers=[
            api.ContainerResources(name=one, devices=devices) for one, devices in containers.items()
        ],
    )


PODS = [
    pod(
        "ml",
        "train-0",
        trainer=[device("example.com/gpu", 0), device("example.com/gpu", 1), device("x/nic", 0, 1)],
        sidecar=[],
    ),
    pod("web", "train-0", trainer=[device("x/nic", 3)]),
    pod("odd", "pod", one=[device("x/y", -1), device("x/y"), device("x/y", 2**40, 2)]),
]


class Kubelet:
    """A server of the service; what it answers can be changed while it runs."""

    def __init__(self) -> None:
        self.pods = list(PODS)
        self.calls: list[str] = []
        self.refusal: dict[str, tuple[grpc.StatusCode, str]] = {}
        self.hang = threading.Event()
        self.is_hanging = False

    def list(self, request: api.ListPodResourcesRequest, context: grpc.ServicerContext) -> object:
        self._enter("List", context)
        return api.ListPodResourcesResponse(pod_resources=self.pods)

    def find(self, request: api.GetPodResourcesRequest, context: grpc.ServicerContext) -> object:
        self._enter("Get", context)
        for one in self.pods:
            if (one.namespace, one.name) == (request.pod_namespace, request.pod_name):
                return api.GetPodResourcesResponse(pod_resources=one)
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError

    def _enter(self, method: str, context: grpc.ServicerContext) -> None:
        self.calls.append(method)
        if self.is_hanging:
            self.hang.wait(10)
        if method in self.refusal:
            context.abort(*self.refusal[method])


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def socket(tmp_path: Path) -> str:
    return str(tmp_path / "kubelet.sock")


@pytest.fixture
def kubelet(socket: str) -> Iterator[Kubelet]:
    kubelet = Kubelet()
    server = serve(kubelet, socket)
    yield kubelet
    kubelet.hang.set()
    server.stop(None).wait(10)


def serve(kubelet: Kubelet, socket: str) -> grpc.Server:
    options = [("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(max_workers=2), options=options)
    serve_pod_resources(server, socket, kubelet.list, kubelet.find)
    return server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(clock: Clock, socket: str) -> Iterator[PodResources]:
    client = PodResources(clock, socket)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a kubelet that answers may take longer than is waited for."""
    for name in ("_GET_SECONDS", "_LIST_SECONDS"):
        monkeypatch.setattr(f"pinfold.nri.hints.pod_resources.{name}", 20.0)


def ask(client: PodResources, name: ContainerName) -> tuple[Hint, ...]:
    return client.hints(name.namespace, name.pod).get(name, ())


def hint(resource: str, *nodes: int) -> Hint:
    return Hint(
        provider=f"podresourceapi:{resource}",
        origin=HintOrigin.POD_RESOURCES,
        numa_nodes=NodeSet.of(*nodes),
    )


OF_TRAINER = (hint("example.com/gpu", 0), hint("example.com/gpu", 1), hint("x/nic", 0, 1))


def test_every_device_is_a_hint_of_its_own(kubelet: Kubelet, client: PodResources) -> None:
    assert ask(client, TRAINER) == OF_TRAINER
    assert kubelet.calls == ["Get"]


def test_containers_are_told_apart_by_all_their_names(
    kubelet: Kubelet, client: PodResources
) -> None:
    assert ask(client, ContainerName("web", "train-0", "trainer")) == (hint("x/nic", 3),)
    assert ask(client, ContainerName("ml", "train-0", "sidecar")) == ()
    assert ask(client, ContainerName("ml", "train-0", "stranger")) == ()


def test_a_node_that_can_be_none_is_passed_over(kubelet: Kubelet, client: PodResources) -> None:
    assert ask(client, ContainerName("odd", "pod", "one")) == (hint("x/y", 2),)


def test_all_containers_are_listed_with_one_question(
    kubelet: Kubelet, client: PodResources
) -> None:
    assert client.all_hints() == {
        TRAINER: OF_TRAINER,
        ContainerName("web", "train-0", "trainer"): (hint("x/nic", 3),),
        ContainerName("odd", "pod", "one"): (hint("x/y", 2),),
    }
    assert kubelet.calls == ["List"]


def test_a_node_that_cannot_be_is_told_once_for_each_resource(
    kubelet: Kubelet, client: PodResources
) -> None:
    client.all_hints()
    client.all_hints()
    (warning,) = client.take_warnings()
    assert warning == (
        "the kubelet's devices 'x/y': 1099511627776 is no NUMA node: ids are from 0 to 8191 — no"
        " hint comes from it; see their plugin"
    )
    kubelet.pods.append(pod("odd", "other", one=[device("x/y", -5), device("x/z", 0, -5)]))
    assert client.all_hints()[ContainerName("odd", "other", "one")] == (hint("x/z", 0),)
    (warning,) = client.take_warnings()
    assert warning.startswith("the kubelet's devices 'x/z': -5 is no NUMA node")
    assert client.take_warnings() == []


def test_a_pod_the_kubelet_does_not_know_has_no_hints(
    kubelet: Kubelet, client: PodResources
) -> None:
    assert ask(client, ContainerName("ml", "other", "trainer")) == ()
    assert kubelet.calls == ["Get"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param((grpc.StatusCode.UNIMPLEMENTED, "unknown method Get"), id="an old kubelet"),
        pytest.param(
            (grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled"),
            id="a closed feature gate",
        ),
    ],
)
def test_a_kubelet_that_can_only_list_is_asked_for_single_pods_once(
    kubelet: Kubelet, client: PodResources, refusal: tuple[grpc.StatusCode, str]
) -> None:
    kubelet.refusal["Get"] = refusal
    assert ask(client, TRAINER) == OF_TRAINER
    assert ask(client, TRAINER) == OF_TRAINER
    assert kubelet.calls == ["Get", "List", "List"]


def test_an_error_is_told_once_and_the_kubelet_left_alone_for_a_while(
    kubelet: Kubelet, client: PodResources, clock: Clock, socket: str
) -> None:
    kubelet.refusal["Get"] = (grpc.StatusCode.INTERNAL, "out of order")
    with pytest.raises(PodResourcesError, match=rf"^{socket}: Get: internal: out of order — see"):
        ask(client, TRAINER)
    kubelet.refusal.clear()
    clock.now += 9.9
    for question in (partial(ask, client, TRAINER), client.all_hints):
        with pytest.raises(PodResourcesError, match=r"Get: internal: out of order") as again:
            question()
        assert again.value.cause == "internal"
    assert kubelet.calls == ["Get"]
    clock.now += 0.2
    assert ask(client, TRAINER) == OF_TRAINER


def test_a_list_that_fails_is_told(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.refusal["List"] = (grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limit")
    with pytest.raises(PodResourcesError, match="List: resource exhausted: rate limit"):
        client.all_hints()


def test_a_kubelet_that_hangs_is_given_up(
    kubelet: Kubelet, client: PodResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for the question to reach it.
    monkeypatch.setattr("pinfold.nri.hints.pod_resources._GET_SECONDS", 1.0)
    kubelet.is_hanging = True
    with pytest.raises(PodResourcesError, match="Get: deadline exceeded"):
        ask(client, TRAINER)
    with pytest.raises(PodResourcesError, match="Get: deadline exceeded"):
        ask(client, TRAINER)
    assert kubelet.calls == ["Get"]


def test_without_a_kubelet_the_question_fails_at_once_and_later_finds_one(
    client: PodResources, clock: Clock, socket: str
) -> None:
    with pytest.raises(PodResourcesError, match="unavailable"):
        ask(client, TRAINER)
    kubelet = Kubelet()
    server = serve(kubelet, socket)
    try:
        found: tuple[Hint, ...] = ()
        for _ in range(50):
            clock.now += 11
            try:
                found = ask(client, TRAINER)
                break
            except PodResourcesError:
                threading.Event().wait(0.1)
        assert found == OF_TRAINER
    finally:
        server.stop(None).wait(10)


def test_answers_are_taken_up_to_sixteen_mebibytes(kubelet: Kubelet, client: PodResources) -> None:
    kubelet.pods = [pod("ns", "x" * 2**20, c=[device("x/y", 1)]) for _ in range(15)]
    assert list(client.all_hints().values()) == [(hint("x/y", 1),)]
    kubelet.pods += kubelet.pods[:2]
    with pytest.raises(PodResourcesError, match="resource exhausted"):
        client.all_hints()


def test_a_closed_client_can_be_asked_again(kubelet: Kubelet, client: PodResources) -> None:
    assert ask(client, TRAINER) == OF_TRAINER
    client.close()
    assert ask(client, TRAINER) == OF_TRAINER


def test_the_kubelets_managers_and_cpu_drivers_are_told_once(
    kubelet: Kubelet, client: PodResources
) -> None:
    claim = api.DynamicResource(
        claim_name="c",
        claim_namespace="ml",
        claim_resources=[
            api.ClaimResource(driver_name="dra.cpu", device_name="cpudev0", share_id="1"),
            api.ClaimResource(driver_name="gpu.nvidia.com"),
        ],
    )
    memory = api.ContainerMemory(
        memory_type="memory", size=1 << 30, topology=api.TopologyInfo(nodes=[api.NUMANode(ID=1)])
    )
    placed = api.ContainerResources(
        name="trainer", cpu_ids=[2, 3, 8], memory=[memory], dynamic_resources=[claim]
    )
    whole = api.PodResources(
        namespace="ml", name="p", containers=[placed, placed], cpu_ids=[2], memory=[memory]
    )
    kubelet.pods = [whole]
    assert client.all_hints() == {}
    assert client.all_hints() == {}
    cpu, of_memory, driver = client.take_warnings()
    assert cpu == (
        "the kubelet's CPU manager gave ml/p cpus 2, and is overruled"
        " — write 'cpuManagerPolicy: none' in the kubelet's configuration"
    )
    assert "gave ml/p/trainer NUMA nodes 1" in of_memory
    assert "'memoryManagerPolicy: None'" in of_memory
    assert driver.startswith("the driver 'dra.cpu' gave ml/p/trainer cpus by the claim ml/c;")

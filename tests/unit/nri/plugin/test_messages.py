"""The runtime's messages as values, and pinnings as messages."""

from typing import Any

import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.kubelet import container_message, sandbox_message, start_pods
from pinfold.nri.plugin.messages import (
    PLACES_MAX,
    adjustment_message,
    container_linux_value,
    container_value,
    lost_pod_value,
    pod_value,
    update_messages,
)
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Device,
    Mount,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.kubelet_resources import LinuxResources
from pinfold.policy.model.memory_qos import MemoryQos
from pinfold.policy.model.pinning import Pinning
from pinfold.policy.text.errors import Problem
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

POD = Pod(id=PodId("p"), name="web", annotations={})


def converted(message: nri_pb2.Container, pod: Pod = POD) -> tuple[Container, tuple[Problem, ...]]:
    return container_value(message, pod, container_linux_value(message), 8 << 30)


def test_pod_is_read_with_its_qos_class() -> None:
    message = nri_pb2.PodSandbox(
        id="p",
        name="web",
        uid="u",
        namespace="shop",
        labels=write_entries({"app": "web"}),
        annotations=write_entries({"smt.pinfold.dev/pod": "pack", "example.com/notes": "x" * 9000}),
        linux=nri_pb2.LinuxPodSandbox(cgroup_parent="/kubepods/burstable/podu"),
    )
    assert pod_value(message) == Pod(
        id=PodId("p"),
        name="web",
        uid="u",
        namespace="shop",
        labels={"app": "web"},
        annotations={"smt.pinfold.dev/pod": "pack"},
        qos=QosClass.BURSTABLE,
    )


@pytest.mark.parametrize(
    ("path", "qos"),
    [
        pytest.param("/kubepods/pod1/c", QosClass.GUARANTEED, id="guaranteed"),
        pytest.param(
            "kubepods-besteffort-pod1.slice:cri-containerd:c",
            QosClass.BEST_EFFORT,
            id="best effort",
        ),
        pytest.param("", QosClass.BURSTABLE, id="not known"),
    ],
)
def test_the_class_of_a_pod_without_a_sandbox_is_that_of_the_containers_cgroup(
    path: str, qos: QosClass
) -> None:
    lost = nri_pb2.Container(id="c", pod_sandbox_id="p")
    lost.linux.cgroups_path = path
    assert lost_pod_value(lost) == Pod(id=PodId("p"), name="", qos=qos)


def test_what_is_beyond_the_budget_of_annotations_never_reaches_the_policy() -> None:
    annotations = {"rdtclass.resource-policy.nri.io/pod": "x" * 250_000}
    pod = pod_value(nri_pb2.PodSandbox(id="p", name="web", annotations=write_entries(annotations)))
    assert pod.annotations == {}
    (problem,) = pod.annotation_problems
    assert problem.where == "rdtclass.resource-policy.nri.io/pod of default/web"


def test_container_is_read_with_all_that_matters() -> None:
    message = nri_pb2.Container(
        id="c",
        name="nginx",
        state=nri_pb2.CONTAINER_RUNNING,
        labels={"k": "v"},
        created_at=7,
        mounts=[
            nri_pb2.Mount(source="/data", destination="/d", options=["rbind", "ro"]),
            nri_pb2.Mount(source="/log", destination="/l", options=["rw"]),
        ],
    )
    message.linux.devices.add(path="/dev/gpu0", type="c", major=195, minor=3)
    message.linux.resources.devices.add(allow=True, access="rwm")
    cpu = message.linux.resources.cpu
    cpu.shares.value, cpu.quota.value, cpu.period.value = 1024, 200_000, 100_000
    cpu.cpus, cpu.mems = "0-3", "1"
    message.linux.resources.memory.limit.value = 1 << 20
    message.linux.resources.hugepage_limits.add(page_size="2MB", limit=4 << 20)
    message.linux.resources.hugepage_limits.add(page_size="1GB", limit=0)
    value, problems = converted(message)
    assert problems == ()
    assert value == Container(
        id=ContainerId("c"),
        name="nginx",
        pod=POD,
        labels={"k": "v"},
        resources=Resources(
            cpu_request_milli=1000,
            cpu_limit_milli=2000,
            memory_limit_bytes=1 << 20,
            hugepage_bytes={2 << 20: 4 << 20},
        ),
        state=ContainerState.RUNNING,
        created_at=7,
        cpus=CpuSet.parse("0-3"),
        mems=NodeSet.of(1),
        devices=(Device(path="/dev/gpu0", major=195, minor=3),),
        mounts=(
            Mount(source="/data", destination="/d", is_read_only=True),
            Mount(source="/log", destination="/l"),
        ),
    )


def rule(
    access: str,
    kind: str = "",
    major: int | None = None,
    minor: int | None = None,
    *,
    allow: bool = True,
) -> nri_pb2.LinuxDeviceCgroup:
    found = nri_pb2.LinuxDeviceCgroup(allow=allow, type=kind, access=access)
    if major is not None:
        found.major.value = major
    if minor is not None:
        found.minor.value = minor
    return found


DENY_ALL = rule("rwm", allow=False)


@pytest.mark.parametrize(
    ("rules", "is_writable"),
    [
        pytest.param([], False, id="no rule"),
        pytest.param([DENY_ALL], False, id="a rule that denies"),
        pytest.param([DENY_ALL, rule("rwm", "c", 195, 3)], True, id="the rule of the device"),
        pytest.param([DENY_ALL, rule("rm", "c", 195, 3)], False, id="read and make only"),
        pytest.param([rule("rw", "b", 195, 3)], False, id="a block device of this number"),
        pytest.param([rule("rw", "c", 195, 4)], False, id="another minor number"),
        pytest.param([rule("rw", "c", 1, 3)], False, id="another major number"),
        pytest.param([rule("rw", "c", 0, 0)], False, id="numbers that are 0 and not unset"),
        pytest.param([rule("rw", "c", 195)], True, id="all of a driver"),
        pytest.param([rule("rw", "c", 195, -1)], True, id="all of a driver, written as -1"),
        pytest.param([rule("rw", "a", -1, -1)], True, id="everything"),
        pytest.param([rule("r", "c", 195, 3), rule("w", "c")], True, id="the second of two rules"),
    ],
)
def test_a_device_is_writable_where_a_rule_of_its_cgroup_says_so(
    rules: list[nri_pb2.LinuxDeviceCgroup], is_writable: bool
) -> None:
    for kind in ("c", "u"):
        message = nri_pb2.Container(id="c")
        message.linux.devices.add(path="/dev/gpu0", type=kind, major=195, minor=3)
        message.linux.resources.devices.extend(rules)
        (device,) = converted(message)[0].devices
        assert device.is_writable is is_writable


def test_of_thousands_of_devices_and_mounts_the_first_are_read() -> None:
    message = nri_pb2.Container(id="c")
    for minor in range(6000):
        message.linux.devices.add(path=f"/dev/x{minor}", type="c", major=100, minor=minor)
        message.mounts.add(source=f"/data/{minor}", destination=f"/d/{minor}")
        if minor % 2:
            message.linux.resources.devices.append(rule("rwm", "c", 100, minor))
    container, problems = converted(message)
    assert [one.is_writable for one in container.devices] == [False, True] * (PLACES_MAX // 2)
    assert container.mounts[-1].source == f"/data/{PLACES_MAX - 1}"
    assert [problem.what for problem in problems] == [
        f"6000 {noun}, of which the first {PLACES_MAX} count as hints"
        for noun in ("devices", "mounts")
    ]
    assert all(problem.is_advice for problem in problems)


def test_empty_message_is_a_container_that_asks_for_nothing() -> None:
    value, problems = converted(nri_pb2.Container(id="c"))
    assert problems == ()
    assert (value.resources, value.cpus, value.state) == (Resources(), None, ContainerState.CREATED)


def test_name_is_read_from_the_label_where_the_field_is_empty() -> None:
    labels = {"io.kubernetes.container.name": "nginx"}
    assert converted(nri_pb2.Container(id="c", labels=labels))[0].name == "nginx"


def test_exact_amounts_of_the_annotation_win_over_the_estimate() -> None:
    text = '{"containers": {"nginx": {"requests": {"cpu": "1m"}}}}'
    annotations = {"noderesource.dev/resources": text}
    pod = Pod(id=PodId("p"), name="web", annotations=annotations, qos=QosClass.BURSTABLE)
    message = nri_pb2.Container(id="c", name="nginx")
    message.linux.resources.cpu.shares.value = 2
    assert converted(message, pod)[0].resources.cpu_request_milli == 1
    message.name = "other"
    assert converted(message, pod)[0].resources.cpu_request_milli == 0


@pytest.mark.parametrize(
    ("state", "shares", "milli", "complaints"),
    [
        pytest.param(nri_pb2.CONTAINER_RUNNING, 2048, 2000, 0, id="as it was created"),
        pytest.param(nri_pb2.CONTAINER_RUNNING, 3072, 3000, 0, id="resized since"),
        pytest.param(nri_pb2.CONTAINER_RUNNING, 0, 0, 0, id="the kubelet asked for nothing"),
        pytest.param(nri_pb2.CONTAINER_CREATED, 3072, 3000, 1, id="new: the kubelet knows better"),
    ],
)
def test_an_annotation_is_of_the_time_of_creation(
    state: Any, shares: int, milli: int, complaints: int
) -> None:
    text = '{"containers": {"nginx": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}}'
    annotations = {"noderesource.dev/resources": text}
    pod = Pod(id=PodId("p"), name="web", annotations=annotations, qos=QosClass.BURSTABLE)
    message = nri_pb2.Container(id="c", name="nginx", state=state)
    message.linux.resources.cpu.shares.value = shares
    container, problems = converted(message, pod)
    assert container.resources.cpu_request_milli == milli
    assert len(problems) == complaints


@pytest.mark.parametrize(
    ("unified", "exact"),
    [
        pytest.param({}, None, id="nothing protected"),
        pytest.param({"memory.min": "4096"}, 4096, id="a Guaranteed container"),
        pytest.param({"memory.low": "4096", "memory.high": "9000"}, 4096, id="a Burstable one"),
        pytest.param({"memory.min": "0", "memory.low": "4096"}, 4096, id="0 is unset"),
        pytest.param({"memory.low": "max"}, None, id="no number"),
        pytest.param({"memory.low": "9" * 5000}, None, id="a number no machine has"),
        pytest.param({"memory.low": "-1"}, None, id="a negative number"),
    ],
)
def test_memory_request_is_what_the_kernel_protects(
    unified: dict[str, str], exact: int | None
) -> None:
    message = nri_pb2.Container(id="c", name="nginx")
    message.linux.resources.unified.update(unified)
    assert container_linux_value(message).memory_request_bytes == exact


def test_a_kubelet_protects_what_a_container_requests_and_not_what_its_pod_does() -> None:
    shown = Resources(memory_request_bytes=900, memory_limit_bytes=2048 << 20)
    own = Resources(memory_request_bytes=512 << 20)
    spec = ContainerSpec(name="c", resources=shown, own=own)
    pod = PodSpec(name="p", qos=QosClass.BURSTABLE, containers=(spec,))
    tiered = container_message(spec, pod, 8 << 30, memory_qos=MemoryQos.TIERED)
    assert container_linux_value(tiered).memory_request_bytes == 512 << 20
    plain = container_message(spec, pod, 8 << 30)
    assert not plain.linux.resources.unified


def test_cpuset_that_cannot_be_read_is_a_problem_and_not_the_end() -> None:
    message = nri_pb2.Container(id="c", name="nginx")
    message.linux.resources.cpu.cpus = "0-x"
    value, [problem] = converted(message)
    assert value.cpus is None
    assert str(problem).startswith("default/web/nginx: the runtime's cpuset: '0-x' is not")


@pytest.mark.parametrize(
    ("number", "state"),
    [
        pytest.param(0, ContainerState.CREATED, id="unknown may run"),
        pytest.param(1, ContainerState.CREATED, id="created"),
        pytest.param(2, ContainerState.RUNNING, id="paused goes on later"),
        pytest.param(3, ContainerState.RUNNING, id="running"),
        pytest.param(4, ContainerState.EXITED, id="stopped"),
        pytest.param(9, ContainerState.CREATED, id="a state of newer runtimes"),
    ],
)
def test_states_of_the_runtime_become_ours(number: int, state: ContainerState) -> None:
    message = nri_pb2.Container.FromString(bytes([0x20, number]))
    assert converted(message)[0].state is state


def test_pinning_becomes_an_adjustment_with_what_is_set_alone() -> None:
    message = adjustment_message(Pinning(cpus=CpuSet.parse("0,2")))
    assert message is not None
    cpu = message.linux.resources.cpu
    assert (cpu.cpus, cpu.mems) == ("0,2", "")
    assert not cpu.HasField("shares"), "they are the kubelet's"
    assert not cpu.HasField("quota")


def test_nothing_to_pin_is_no_message_at_all() -> None:
    assert adjustment_message(Pinning()) is None
    assert update_messages({ContainerId("c"): Pinning()}) == []


def test_empty_set_cannot_be_written_and_is_left_out() -> None:
    assert adjustment_message(Pinning(cpus=CpuSet(), mems=NodeSet())) is None


@pytest.mark.parametrize(
    ("qos", "resources"),
    [
        pytest.param(
            QosClass.GUARANTEED,
            Resources(
                cpu_request_milli=1500,
                cpu_limit_milli=1500,
                memory_request_bytes=1 << 30,
                memory_limit_bytes=1 << 30,
                hugepage_bytes={2 << 20: 6 << 20, 1 << 30: 2 << 30},
            ),
            id="guaranteed",
        ),
        pytest.param(
            QosClass.BURSTABLE,
            Resources(
                cpu_request_milli=999,
                cpu_limit_milli=1001,
                memory_request_bytes=1 << 30,
                memory_limit_bytes=2 << 30,
            ),
            id="burstable",
        ),
        pytest.param(QosClass.BEST_EFFORT, Resources(), id="best effort"),
    ],
)
def test_what_the_kubelet_asks_for_arrives_as_it_was_written(
    qos: QosClass, resources: Resources
) -> None:
    spec = PodSpec(name="web", qos=qos)
    pod = pod_value(sandbox_message(spec))
    assert pod.qos is qos
    message = container_message(ContainerSpec(name="c", resources=resources), spec, 8 << 30)
    assert converted(message, pod)[0].resources == resources


def test_wrapper_of_zero_is_unset() -> None:
    message = nri_pb2.Container(id="c")
    message.linux.resources.cpu.shares.value = 0
    message.linux.resources.memory.limit.value = 0
    assert container_linux_value(message) == LinuxResources()


def test_init_containers_end_before_the_others_start_and_sidecars_stay() -> None:
    runtime = EmbeddedRuntime()
    pod = PodSpec(
        name="web",
        init_containers=(
            ContainerSpec(name="once", keeps_running=False),
            ContainerSpec(name="sidecar"),
        ),
        containers=(ContainerSpec(name="nginx"),),
    )
    assert not start_pods(runtime, [pod], None)
    assert [(one.name, one.state) for one in runtime.containers.values()] == [
        ("once", nri_pb2.CONTAINER_STOPPED),
        ("sidecar", nri_pb2.CONTAINER_RUNNING),
        ("nginx", nri_pb2.CONTAINER_RUNNING),
    ]


def test_nothing_is_said_of_a_container_without_an_id() -> None:
    pinning = Pinning(cpus=CpuSet.parse("1"))
    pinnings = {ContainerId(""): pinning, ContainerId("c"): pinning}
    assert [one.container_id for one in update_messages(pinnings)] == ["c"]


def test_containers_of_one_pinning_have_an_update_each() -> None:
    one, other = Pinning(cpus=CpuSet.parse("1-2"), mems=NodeSet.of(0)), Pinning(mems=NodeSet.of(1))
    names = {"a": one, "b": other, "c": one, "d": Pinning()}
    updates = update_messages({ContainerId(name): pinning for name, pinning in names.items()})
    found = [(one.container_id, one.linux.resources.cpu) for one in updates]
    assert [(name, cpu.cpus, cpu.mems) for name, cpu in found] == [
        ("a", "1-2", "0"),
        ("b", "", "1"),
        ("c", "1-2", "0"),
    ]


@pytest.mark.parametrize(
    ("cgroup_parent", "is_told"),
    [
        ("/kubepods/system/burstable/pod1", True),
        ("/kubepods.slice/kubepods-system.slice/kubepods-system-pod1.slice", True),
        ("/kubepods/burstable/pod1", False),
        ("/system.slice/kubepods/podsystem", False),
    ],
)
def test_a_pod_of_the_system_partition_is_told(cgroup_parent: str, is_told: bool) -> None:
    linux = nri_pb2.LinuxPodSandbox(cgroup_parent=cgroup_parent)
    problems = pod_value(nri_pb2.PodSandbox(id="p", name="p", linux=linux)).annotation_problems
    assert [one.is_advice for one in problems] == ([True] if is_told else [])

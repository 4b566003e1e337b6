import pytest

from pinfold.nri.api import cri_proxy_pb2 as cri
from pinfold.nri.cri.nri_messages import (
    cgroup_parent_by_score,
    container_of_config,
    nri_resources,
    sandbox_of_config,
)
from pinfold.nri.plugin.messages import container_linux_value, container_value, pod_value
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.policy.model.container import Mount, QosClass
from pinfold.policy.model.kubelet_resources import LinuxResources, qos_of_cgroup
from pinfold.topology.sets.cpuset import CpuSet

SANDBOX = cri.SandboxConfig(
    metadata=cri.SandboxMetadata(name="web", uid="u1", namespace="shop"),
    labels=write_entries({"app": "web"}),
    annotations=write_entries({"pinfold.dev/pod": "x"}),
    linux=cri.LinuxSandbox(cgroup_parent="/kubepods/burstable/podu1"),
)
CONFIG = cri.Config(
    metadata=cri.ContainerMetadata(name="main", attempt=2),
    labels=write_entries({"io.kubernetes.container.name": "main"}),
    mounts=[cri.Mount(container_path="/data", host_path="/mnt/data", readonly=True)],
    devices=[
        cri.Device(container_path="/dev/zero", host_path="/dev/zero", permissions="r"),
        cri.Device(container_path="/dev/null", host_path="/dev/null", permissions="rw"),
        cri.Device(container_path="/dev/x", host_path="/absent\x00"),
    ],
    linux=cri.LinuxConfig(
        resources=cri.Resources(
            cpu_shares=512,
            cpu_quota=100_000,
            cpu_period=50_000,
            memory_limit_in_bytes=1 << 30,
            oom_score_adj=900,
            cpuset_cpus="0-3",
            hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=4 << 20)],
            unified=write_entries({"memory.low": "1048576"}),
        )
    ),
)


def test_a_container_is_read_as_over_nri() -> None:
    pod = pod_value(sandbox_of_config("s1", SANDBOX))
    message = container_of_config("c1", "s1", CONFIG)
    linux = container_linux_value(message)
    container, problems = container_value(message, pod, linux, None)
    assert (pod.id, pod.name, pod.namespace, pod.uid) == ("s1", "web", "shop", "u1")
    assert (pod.qos, pod.labels["app"]) == (QosClass.BURSTABLE, "web")
    assert linux == LinuxResources(
        cpu_shares=512,
        cpu_quota=100_000,
        cpu_period=50_000,
        memory_limit_bytes=1 << 30,
        hugepage_bytes={2 << 20: 4 << 20},
        oom_score_adj=900,
        memory_request_bytes=1 << 20,
    )
    assert (container.id, container.name, container.cpus) == ("c1", "main", CpuSet.parse("0-3"))
    assert container.mounts == (Mount(source="/mnt/data", destination="/data", is_read_only=True),)
    found = [(one.path, one.type, one.minor, one.is_writable) for one in container.devices]
    assert found == [("/dev/zero", "c", 5, False), ("/dev/null", "c", 3, True)]
    assert problems == ()


def test_what_is_not_given_is_unset() -> None:
    message = nri_resources(cri.Resources())
    assert not message.cpu.HasField("shares")
    assert not message.memory.HasField("limit")


@pytest.mark.parametrize(
    ("score", "qos"),
    [(-997, QosClass.GUARANTEED), (1000, QosClass.BEST_EFFORT), (500, QosClass.BURSTABLE)],
)
def test_the_class_of_a_pod_is_read_off_a_score_where_nothing_else_tells(
    score: int, qos: QosClass
) -> None:
    assert qos_of_cgroup(cgroup_parent_by_score(score, "u1")) is qos

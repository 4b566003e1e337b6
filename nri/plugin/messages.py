"""The runtime's messages as values of the policy, and what it decided as messages for it."""

from collections.abc import Iterator, Mapping
from itertools import product, starmap
from typing import Final, NamedTuple, TypeVar

from ...policy.annotations.annotation_budget import admit
from ...policy.annotations.cpu_claims import claimed_cpus
from ...policy.annotations.resource_annotation import refined_resources
from ...policy.configuration.config import SchedulingClass
from ...policy.model.container import (
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
from ...policy.model.cpuset_conflicts import system_partition_problem
from ...policy.model.kubelet_resources import (
    LinuxResources,
    estimate,
    is_in_system_partition,
    parse_page_size,
    qos_of_cgroup,
)
from ...policy.model.memory_qos import protected_bytes
from ...policy.model.pinning import Pinning
from ...policy.rules.label_budget import admit_labels
from ...policy.text.errors import Problem
from ...policy.tuning.resource_class import NO_CLASSES, ResourceClasses
from ...topology.sets.cpuset import CpuSet, IdListError, NodeSet
from ..api import nri_pb2
from .scheduling_messages import add_scheduling
from .string_entries import decode_annotations, decode_labels

Ids = TypeVar("Ids", CpuSet, NodeSet)

_NAME_LABEL: Final = "io.kubernetes.container.name"

PLACES_MAX: Final = 1024
"""So many devices and so many mounts of a container are read; they only tell where it is near."""

_PAGE_SIZES_MAX: Final = 64
"""Of huge pages: no architecture has as many, and not all of a container's are limited."""

_RULES_MAX: Final = 2 * PLACES_MAX
"""Of its device cgroup."""

_ALL: Final = "a"
_EVERY_NUMBER: Final = -1

# A container without a known state may run: it keeps its cpus.
_STATES: Final[Mapping[int, ContainerState]] = {
    nri_pb2.CONTAINER_UNKNOWN: ContainerState.CREATED,
    nri_pb2.CONTAINER_CREATED: ContainerState.CREATED,
    nri_pb2.CONTAINER_PAUSED: ContainerState.RUNNING,
    nri_pb2.CONTAINER_RUNNING: ContainerState.RUNNING,
    nri_pb2.CONTAINER_STOPPED: ContainerState.EXITED,
}


class _DeviceKey(NamedTuple):
    """The devices that a rule is about; type "a" and number -1, or none at all, stand for all.

    Source: the OCI runtime specification, "Allowed Device list".
    """

    type: str
    major: int
    minor: int


def pod_value(pod: nri_pb2.PodSandbox) -> Pod:
    """The pod of a message, which may hold an id alone where the sandbox is gone."""
    namespace = pod.namespace or "default"
    path = f"{namespace}/{pod.name}"
    annotations, annotations_unread = decode_annotations(pod.annotations)
    labels, labels_left_out = decode_labels(pod.labels)
    admitted = admit(annotations, path, annotations_unread)
    admitted_labels = admit_labels(labels, path, labels_left_out)
    problems = admitted.problems + admitted_labels.problems
    linux = pod.linux
    if is_in_system_partition(linux.cgroup_parent):
        problems += (system_partition_problem(path),)
    qos = qos_of_cgroup(linux.cgroup_parent)
    has_resources = linux.HasField("pod_resources")
    return Pod(
        id=PodId(pod.id),
        name=pod.name,
        namespace=namespace,
        uid=pod.uid,
        labels=admitted_labels.labels,
        annotations=admitted.annotations,
        annotation_problems=problems,
        qos=qos,
        resources=pod_resources_value(linux.pod_resources, qos) if has_resources else None,
    )


def pod_resources_value(resources: nri_pb2.LinuxResources, qos: QosClass) -> Resources | None:
    """The resources of a whole pod; None where the runtime tells none."""
    linux = linux_value(resources)
    if linux == LinuxResources():
        return None
    return estimate(linux, qos, None)


def lost_pod_value(container: nri_pb2.Container) -> Pod:
    """The pod of a container whose sandbox the runtime does not list: its id, and its QoS class.

    The container's own cgroup is inside the pod's, so it tells the class too.
    """
    linux = nri_pb2.LinuxPodSandbox(cgroup_parent=container.linux.cgroups_path)
    return pod_value(nri_pb2.PodSandbox(id=container.pod_sandbox_id, linux=linux))


def container_value(
    container: nri_pb2.Container,
    pod: Pod,
    linux: LinuxResources,
    machine_memory_bytes: int | None,
) -> tuple[Container, tuple[Problem, ...]]:
    """The container of a message, and what in it could not be read.

    `linux` is what the kubelet asked for.
    """
    name = container.name or container.labels.get(_NAME_LABEL, "")
    where = f"{pod.namespace}/{pod.name}/{name}"
    resources, found = refined_resources(
        estimate(linux, pod.qos, machine_memory_bytes),
        linux,
        pod,
        name,
        machine_memory_bytes,
        is_running=container.state == nri_pb2.CONTAINER_RUNNING,
    )
    problems = [*found]
    counts = {"devices": len(container.linux.devices), "mounts": len(container.mounts)}
    for noun, count in counts.items():
        if count > PLACES_MAX:
            what = f"{count} {noun}, of which the first {PLACES_MAX} count as hints"
            problems.append(Problem(where=where, what=what, is_advice=True))
    claimed, odd = claimed_cpus(container.env, where)
    problems += odd
    cpu = container.linux.resources.cpu
    value = Container(
        id=ContainerId(container.id),
        name=name,
        pod=pod,
        labels=admit_labels(container.labels, where).labels,
        resources=resources,
        state=state_value(container),
        created_at=container.created_at,
        cpus=_ids(CpuSet, cpu.cpus, where, problems) if cpu.cpus else None,
        mems=_ids(NodeSet, cpu.mems, where, problems) if cpu.mems else None,
        claimed=claimed,
        devices=_devices(container.linux) if counts["devices"] else (),
        mounts=_mounts(container) if counts["mounts"] else (),
    )
    return value, tuple(problems)


def state_value(container: nri_pb2.Container) -> ContainerState:
    """The state of a container; created, where a message tells none that is known."""
    return _STATES.get(container.state, ContainerState.CREATED)


def ids_value(kind: type[Ids], text: str) -> Ids | None:
    """The cpus or memory nodes of a message; None where there are none, or no such text."""
    try:
        return kind.parse(text) if text else None
    except IdListError:
        return None


def linux_value(
    resources: nri_pb2.LinuxResources, oom_score_adj: nri_pb2.OptionalInt | None = None
) -> LinuxResources:
    """The cgroup values of a message; wrappers that are missing or hold 0 mean unset."""
    hugepages: dict[int, int] = {}
    for one in resources.hugepage_limits[:_PAGE_SIZES_MAX]:
        size = parse_page_size(one.page_size)
        if size is not None and one.limit:
            hugepages[size] = one.limit
    cpu = resources.cpu
    return LinuxResources(
        cpu_shares=cpu.shares.value,
        cpu_quota=cpu.quota.value,
        cpu_period=cpu.period.value,
        memory_limit_bytes=max(0, resources.memory.limit.value),
        hugepage_bytes=hugepages,
        oom_score_adj=None if oom_score_adj is None else oom_score_adj.value,
        memory_request_bytes=protected_bytes(resources.unified) if resources.unified else None,
    )


def container_linux_value(container: nri_pb2.Container) -> LinuxResources:
    """The cgroup values a container has as the runtime knows them."""
    linux = container.linux
    adjustment = linux.oom_score_adj if linux.HasField("oom_score_adj") else None
    return linux_value(linux.resources, adjustment)


def bare_linux_value(message: nri_pb2.Container) -> LinuxResources:
    """The cpus that a container asks for, where nothing else of it can be read."""
    cpu = message.linux.resources.cpu
    return LinuxResources(
        cpu_shares=cpu.shares.value, cpu_quota=cpu.quota.value, cpu_period=cpu.period.value
    )


def bare_container_value(message: nri_pb2.Container, pod: nri_pb2.PodSandbox) -> Container:
    """A container that cannot be read, by ids, names, cpusets, and cpu and memory values alone.

    Whatever made reading the rest of it fail, such as its annotations, is not looked at.
    """
    qos = qos_of_cgroup(pod.linux.cgroup_parent or message.linux.cgroups_path)
    cpu = message.linux.resources.cpu
    return Container(
        id=ContainerId(message.id),
        name=message.name,
        pod=Pod(
            id=PodId(message.pod_sandbox_id),
            name=pod.name,
            namespace=pod.namespace or "default",
            uid=pod.uid,
            qos=qos,
        ),
        resources=estimate(bare_linux_value(message), qos, None),
        state=state_value(message),
        created_at=message.created_at,
        cpus=ids_value(CpuSet, cpu.cpus),
        mems=ids_value(NodeSet, cpu.mems),
    )


def adjustment_message(
    pinning: Pinning,
    scheduling: SchedulingClass | None = None,
    classes: ResourceClasses = NO_CLASSES,
) -> nri_pb2.ContainerAdjustment | None:
    """The adjustment of a container being created; None where nothing is asked for."""
    adjustment = nri_pb2.ContainerAdjustment()
    linux = adjustment.linux
    _write_pinning(pinning, linux.resources)
    if scheduling is not None:
        add_scheduling(linux, scheduling)
    if classes.rdt:
        linux.resources.rdt_class.value = classes.rdt
    if classes.blockio:
        linux.resources.blockio_class.value = classes.blockio
    return adjustment if adjustment.HasField("linux") else None


def update_messages(pinnings: Mapping[ContainerId, Pinning]) -> list[nri_pb2.ContainerUpdate]:
    """The updates of several containers, without the empty ones.

    containerd takes the beginning of an id for the id, so nothing may be said of "".
    """
    named = [(one, update_message(pinning, one)) for one, pinning in pinnings.items()]
    return [update for container_id, update in named if container_id and update.HasField("linux")]


def update_message(
    pinning: Pinning, container_id: ContainerId | None = None
) -> nri_pb2.ContainerUpdate:
    """The update of a container to a pinning; without `linux` where nothing is asked for."""
    update = nri_pb2.ContainerUpdate(container_id=container_id)
    _write_pinning(pinning, update.linux.resources)
    return update


def _mounts(container: nri_pb2.Container) -> tuple[Mount, ...]:
    return tuple(
        [
            Mount(
                source=one.source,
                destination=one.destination,
                is_read_only="ro" in one.options,
            )
            for one in container.mounts[:PLACES_MAX]
        ]
    )


def _devices(linux: nri_pb2.LinuxContainer) -> tuple[Device, ...]:
    """A container's devices; writable are those that a rule of the device cgroup lets it write.

    Linear: a container may have many devices, each with a rule of its own.
    """
    rules = {
        _DeviceKey(
            _ALL if one.type in ("", "a") else one.type,
            one.major.value if one.HasField("major") else _EVERY_NUMBER,
            one.minor.value if one.HasField("minor") else _EVERY_NUMBER,
        )
        for one in linux.resources.devices[:_RULES_MAX]
        if one.allow and "w" in one.access
    }
    return tuple(
        Device(
            path=one.path,
            type=one.type,
            major=one.major,
            minor=one.minor,
            is_writable=any(key in rules for key in _keys_of(one)),
        )
        for one in linux.devices[:PLACES_MAX]
    )


def _keys_of(device: nri_pb2.LinuxDevice) -> Iterator[_DeviceKey]:
    """The rules that would be about a device, from the exact one to that about all."""
    # An unbuffered character device ("u") is a character device to the cgroup.
    kind = "c" if device.type == "u" else device.type
    return starmap(
        _DeviceKey,
        product((kind, _ALL), (device.major, _EVERY_NUMBER), (device.minor, _EVERY_NUMBER)),
    )


def _write_pinning(pinning: Pinning, resources: nri_pb2.LinuxResources) -> None:
    """Ask for the cpus and memory nodes of a pinning."""
    # An empty text would leave the cpuset as it is, so an empty set cannot be asked for.
    cpus, mems = pinning.cpus, pinning.mems
    if cpus is not None and cpus.mask:
        resources.cpu.cpus = str(cpus)
    if mems is not None and mems.mask:
        resources.cpu.mems = str(mems)


def _ids(kind: type[Ids], text: str, where: str, problems: list[Problem]) -> Ids | None:
    try:
        return kind.parse(text)
    except IdListError as error:
        problems.append(Problem(where=where, what=f"the runtime's cpuset: {error}"))
        return None

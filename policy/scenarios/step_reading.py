"""Steps of a scenario, read from a file: a mapping with the key `do` each.

What cannot be simulated carries `unsupported: REASON` and is skipped.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ...topology.sets.cpuset import NO_CPUS, CpuSet, IdListError
from ..manifests.pod_spec import (
    ContainerSpec,
    PodSpec,
    as_shown,
    pod_size,
    qos_class,
    sized,
    with_pages_of,
)
from ..model.container import ContainerState, QosClass, Resources
from ..model.cpuset_conflicts import KubeletManagers
from ..text.errors import ConfigError
from ..text.quantity import parse_bytes, parse_milli, parse_nanoseconds, parse_page_bytes
from ..text.suggestion import nearest
from ..text.yaml_fields import Field
from .step import (
    AddContainer,
    CreatePod,
    DeletePods,
    EndContainer,
    Expect,
    Instance,
    Reconfigure,
    Remember,
    SetInterrupts,
    SetOnline,
    Start,
    Step,
    Stop,
    Synchronize,
    UnsupportedStep,
    UpdateContainer,
    UpdatePod,
    Wait,
)


def read_step(step: Field) -> Step:
    """The step of a mapping; `UnsupportedStep` where it is passed over. Raises `FieldError`."""
    if not step["unsupported"].is_missing:
        return UnsupportedStep(step["unsupported"].text())
    kind = step["do"].text()
    parse = _STEPS.get(kind)
    if parse is None:
        if near := nearest(kind, _STEPS):
            raise step["do"].error(f"unknown step {kind!r}", f"did you mean {near!r}?")
        # One for programs that look at other things than places.
        return UnsupportedStep(f"{kind!r} is not simulated")
    return parse(step)


def _start(step: Field) -> Step:
    return Start(
        config=None if step["config"].is_missing else _values(step["config"]),
        environment=step["env"].texts(),
        managers=KubeletManagers.of(
            step["kubelet"]["cpuManagerPolicy"].text(""),
            step["kubelet"]["memoryManagerPolicy"].text(""),
        ),
        expected_error=step["expect_start_error"].text(""),
    )


def _stop(step: Field) -> Step:
    return Stop()


def _reconfigure(step: Field) -> Step:
    return Reconfigure(
        config=_values(step["config"]), expected_error=step["expect_update_error"].text("")
    )


def _values(config: Field) -> Mapping[str, object]:
    return {key: one.value for key, one in config.entries().items()}


def _create_pod(step: Field) -> Step:
    init_containers = tuple(
        _container(one, is_init=True) for one in step["init_containers"].elements()
    )
    containers = tuple(_container(one, is_init=False) for one in step["containers"].elements())
    size, judged = pod_size(sized(init_containers, containers)), (*init_containers, *containers)
    if step["resources"].entries():
        all_sized = sized(init_containers, containers)
        whole = size = with_pages_of(_resources(step["resources"]), all_sized)
        judged = (ContainerSpec(name="", resources=whole),)
        init_containers = tuple(as_shown(one, whole, all_sized) for one in init_containers)
        containers = tuple(as_shown(one, whole, all_sized) for one in containers)
    pod = PodSpec(
        name=step["pod"].text(),
        namespace=step["namespace"].text("default"),
        labels=step["labels"].texts(),
        annotations=step["annotations"].texts(),
        qos=_qos(step["qos"], judged),
        resources=size,
        is_of_system=step["system_partition"].boolean(),
        init_containers=init_containers,
        containers=containers,
    )
    return CreatePod(pod=pod, expected_error=step["expect_create_error"].text(""))


def _qos(qos: Field, containers: tuple[ContainerSpec, ...]) -> QosClass:
    return qos_class(containers) if qos.is_missing else qos.member(QosClass, "unknown class")


def _container(one: Field, *, is_init: bool) -> ContainerSpec:
    return ContainerSpec(
        name=one["name"].text(),
        resources=_resources(one),
        devices=_counts(one["devices"]),
        claims=_counts(one["claims"]),
        gpus=tuple(number.integer() for number in one["nvidia"].elements()),
        keeps_running=not is_init or one["restart_policy"].text("") == "Always",
        environment=tuple(f"{key}={text}" for key, text in one["env"].texts().items()),
        placed_on=_cpus(one["cpuset"]),
    )


def _counts(devices: Field) -> Mapping[str, int]:
    return {resource: count.integer() for resource, count in devices.entries().items()}


def _cpus(cpuset: Field) -> CpuSet | None:
    return None if cpuset.is_missing else _cpu_list(cpuset)


def _cpu_list(cpuset: Field) -> CpuSet:
    try:
        return CpuSet.parse(cpuset.scalar())
    except IdListError as error:
        raise cpuset.error(str(error)) from error


def _resources(one: Field) -> Resources:
    cpu_limit = _amount(one["cpu_lim"], parse_milli)
    memory_limit = _amount(one["mem_lim"], parse_bytes)
    cpu_request = _amount(one["cpu_req"], parse_milli)
    memory_request = _amount(one["mem_req"], parse_bytes)
    return Resources(
        cpu_request_milli=(cpu_limit or 0) if cpu_request is None else cpu_request,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=(memory_limit or 0) if memory_request is None else memory_request,
        memory_limit_bytes=memory_limit,
        hugepage_bytes=_huge_pages(one["hugepages"]),
    )


def _huge_pages(pages: Field) -> Mapping[int, int]:
    """Limits of huge pages by their size, both as in `hugepages-2Mi: 64Mi`."""
    found: dict[int, int] = {}
    for size, amount in pages.entries().items():
        try:
            found[parse_page_bytes(size)] = parse_bytes(amount.scalar())
        except ConfigError as error:
            raise amount.error(str(error)) from error
    return found


def _amount(amount: Field, parse: Callable[[str], int]) -> int | None:
    if amount.is_missing:
        return None
    try:
        return parse(amount.scalar())
    except ConfigError as error:
        raise amount.error(str(error)) from error


def _add_container(step: Field) -> Step:
    return AddContainer(
        namespace=step["namespace"].text("default"),
        pod=step["pod"].text(),
        container=_container(step["container"], is_init=False),
        expected_error=step["expect_create_error"].text(""),
    )


def _delete_pods(step: Field) -> Step:
    pods = step["pods"]
    names = None
    if pods.is_list or pods.is_missing or pods.text() != "ALL":
        names = tuple(one.text() for one in pods.elements())
    return DeletePods(namespace=step["namespace"].text("default"), names=names)


def _end(step: Field) -> Step:
    restarts = step["do"].text() == "container_crash_restart"
    return EndContainer(container=step["container"].text(), restarts=restarts)


def _update(step: Field) -> Step:
    return UpdateContainer(
        container=step["container"].text(),
        resources=_resources(step),
        expected_error=step["expect_update_error"].text(""),
    )


def _update_pod(step: Field) -> Step:
    return UpdatePod(
        namespace=step["namespace"].text("default"),
        pod=step["pod"].text(),
        resources=_resources(step),
        expected_error=step["expect_update_error"].text(""),
    )


def _remember(step: Field) -> Step:
    return Remember(name=step["name"].text(), value=step["value"].text())


def _expect(step: Field) -> Step:
    return Expect(tuple(one.text() for one in step["that"].elements()))


def _interrupts(step: Field) -> Step:
    interrupts = step["interrupts"].elements()
    descriptions = {one["num"].integer(): one["description"].text() for one in interrupts}
    return SetInterrupts(descriptions, _cpu_list(step["affinity"]))


def _online(step: Field) -> Step:
    return SetOnline(_cpus(step["cpus"]) or NO_CPUS)


def _synchronize(step: Field) -> Step:
    return Synchronize(
        container=step["container"].text(""),
        instances=tuple(_instance(one) for one in step["instances"].elements()),
    )


def _instance(one: Field) -> Instance:
    state = one["state"]
    return Instance(
        id=one["id"].text(),
        created_at=one["created_at"].integer(0),
        state=ContainerState.RUNNING
        if state.is_missing
        else state.member(ContainerState, "unknown state"),
    )


def _wait(step: Field) -> Step:
    """`duration: 5s`, or `seconds: 5`."""
    if step["duration"].is_missing:
        return Wait(step["seconds"].integer() * 10**9)
    nanoseconds = _amount(step["duration"], parse_nanoseconds)
    return Wait(nanoseconds or 0)


def _state_file(step: Field) -> Step:
    return UnsupportedStep("the state file is the daemon's, not the policy's", spoils_start=True)


_STEPS: Final[Mapping[str, Callable[[Field], Step]]] = {
    "start": _start,
    "stop": _stop,
    "update_config": _reconfigure,
    "create_pod": _create_pod,
    "add_container": _add_container,
    "delete_pods": _delete_pods,
    "container_exit": _end,
    "container_crash_restart": _end,
    "update_container": _update,
    "update_pod": _update_pod,
    "remember": _remember,
    "expect": _expect,
    "set_interrupts": _interrupts,
    "set_online": _online,
    "synchronize": _synchronize,
    "synchronize_with_duplicates": _synchronize,
    "wait": _wait,
    "replace_state_file_by_symlink": _state_file,
}

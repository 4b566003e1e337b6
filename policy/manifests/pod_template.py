"""A pod's template as the pod it describes, with QoS class and defaults as in Kubernetes."""

from collections.abc import Mapping

from ..model.container import Resources
from ..text.errors import ConfigError
from ..text.quantity import parse_bytes, parse_milli, parse_page_bytes
from ..text.yaml_fields import Field
from .pod_spec import ContainerSpec, PodSpec, as_shown, defaulted_whole, pod_size, qos_class, sized
from .resource_names import check_resource_names


def pod_of(template: Field, name: str, namespace: str) -> PodSpec:
    """The pod of a manifest or of a template in one. Raises `FieldError`."""
    metadata, spec = template["metadata"], template["spec"]
    init_containers = tuple(
        _container(one, is_init=True) for one in spec["initContainers"].elements()
    )
    containers = tuple(_container(one, is_init=False) for one in spec["containers"].elements())
    if not containers:
        raise spec["containers"].error("is empty", "a pod has at least one container")
    names = [one.name for one in (*init_containers, *containers)]
    for one in names:
        if names.count(one) > 1:
            raise spec.error(f"two containers have the name {one!r}", "rename one")
    everybody = (*init_containers, *containers)
    qos, size = qos_class(everybody), pod_size(sized(init_containers, containers))
    check_resource_names(spec)
    # Resources of the pod as a whole (Kubernetes 1.34) decide the class alone where there are any.
    if spec["resources"].entries():
        all_sized = sized(init_containers, containers)
        whole = defaulted_whole(_resources(spec["resources"], fills_in=False), all_sized)
        qos, size = qos_class((ContainerSpec(name="", resources=whole),)), whole
        init_containers = tuple(as_shown(one, whole, all_sized) for one in init_containers)
        containers = tuple(as_shown(one, whole, all_sized) for one in containers)
    return PodSpec(
        name=name,
        namespace=namespace,
        labels=metadata["labels"].texts(),
        annotations=metadata["annotations"].texts(),
        qos=qos,
        resources=size,
        init_containers=init_containers,
        containers=containers,
    )


def _container(one: Field, *, is_init: bool) -> ContainerSpec:
    check_resource_names(one)
    return ContainerSpec(
        name=one["name"].text(),
        resources=_resources(one["resources"]),
        devices=_devices(one["resources"]["limits"]),
        keeps_running=not is_init or one["restartPolicy"].text("") == "Always",
    )


def _resources(resources: Field, *, fills_in: bool = True) -> Resources:
    """Requests and limits; requests that are left out are the limits, or 0."""
    requests, limits = resources["requests"], resources["limits"]
    cpu_limit = _amount(limits["cpu"], in_milli=True)
    memory_limit = _amount(limits["memory"], in_milli=False)
    cpu_request = _amount(requests["cpu"], in_milli=True)
    memory_request = _amount(requests["memory"], in_milli=False)
    for request, limit, key in (
        (cpu_request, cpu_limit, "cpu"),
        (memory_request, memory_limit, "memory"),
    ):
        if request is not None and limit is not None and request > limit:
            raise requests[key].error("is more than the limit", "lower it or raise the limit")
    cpu_default, memory_default = (cpu_limit, memory_limit) if fills_in else (None, None)
    return Resources(
        cpu_request_milli=(cpu_default or 0) if cpu_request is None else cpu_request,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=(memory_default or 0) if memory_request is None else memory_request,
        memory_limit_bytes=memory_limit,
        hugepage_bytes=_hugepages(limits),
    )


def _devices(limits: Field) -> Mapping[str, int]:
    """Extended resources, which have a domain that is not Kubernetes' own."""
    found: dict[str, int] = {}
    for key, amount in limits.entries().items():
        domain, slash, _ = key.partition("/")
        if not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
            continue
        try:
            count = parse_bytes(amount.scalar())
        except ConfigError as error:
            raise amount.error(str(error)) from error
        # None of them is asked for: so charts leave out what they have a place for.
        if count:
            found[key] = count
    return found


def _hugepages(limits: Field) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for key, amount in limits.entries().items():
        prefix, _, size = key.partition("-")
        if prefix != "hugepages":
            continue
        try:
            found[parse_page_bytes(size)] = parse_bytes(amount.scalar())
        except ConfigError as error:
            raise amount.error(str(error)) from error
    return found


def _amount(amount: Field, *, in_milli: bool) -> int | None:
    if amount.is_missing:
        return None
    written = amount.scalar()
    if written != written.strip():
        # An annotation may have one; the API server refuses a pod with it.
        raise amount.error(f"{written!r} has a space around the amount", "leave it out")
    try:
        return (parse_milli if in_milli else parse_bytes)(written)
    except ConfigError as error:
        raise amount.error(str(error)) from error

"""A permissive configuration: it has whatever a pod names, so that only the pod can be wrong."""

from ...annotations.annotation_keys import RACK_LABEL
from ...annotations.preferences import parse_preferences
from ...configuration.affinity_fields import Rack
from ...configuration.annotation_rule_fields import LoadClass, LoadLevel
from ...configuration.config import (
    BlockIoControl,
    Config,
    Control,
    CpuClass,
    RdtControl,
    SchedulingClass,
)
from ...manifests.pod_spec import PodSpec
from ...rules.podaffinity.own_rules import selected_namespace_labels
from ..creation import created_container, created_pod


def permissive_config(spec: PodSpec) -> Config:
    """A configuration with all classes, racks and labels of namespaces that a pod names."""
    cpu_classes: dict[str, None] = {}
    scheduling_classes: dict[str, None] = {}
    namespace_labels: dict[str, str] = {}
    loads: dict[str, None] = {}
    pod = created_pod(spec, 0)
    for one in spec.all_containers:
        container = created_container(one, pod, 0)[0]
        namespace_labels.update(dict.fromkeys(selected_namespace_labels(container), ""))
        preferences = parse_preferences(container)
        if preferences.load is not None:
            loads[preferences.load.value] = None
        if preferences.cpu_class is not None:
            cpu_classes[preferences.cpu_class.value] = None
        if preferences.scheduling_class is not None:
            scheduling_classes[preferences.scheduling_class] = None
    return Config(
        load_classes=tuple(LoadClass(name=name, level=LoadLevel.CORE) for name in loads),
        cpu_classes=tuple(CpuClass(name=name) for name in cpu_classes),
        scheduling_classes=tuple(SchedulingClass(name=name) for name in scheduling_classes),
        # Of a namespace that cannot exist.
        namespace_labels={"": namespace_labels},
        racks={spec.labels[RACK_LABEL]: Rack()} if RACK_LABEL in spec.labels else {},
        control=Control(rdt=RdtControl(enable=True), blockio=BlockIoControl(enable=True)),
    )

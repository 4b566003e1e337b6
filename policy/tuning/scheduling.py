"""Scheduling classes of containers: a container's own, else its namespace's, else its QoS's."""

from collections.abc import Mapping

from ...topology.sets.base_errors import quoted
from ..annotations.preferences import Preferences
from ..configuration.config import Config, SchedulingClass
from ..model.container import Container
from ..text.errors import Problem
from ..text.suggestion import suggestion


def scheduling_class(
    container: Container, preferences: Preferences, config: Config
) -> SchedulingClass | Problem | None:
    """The class of a container; a problem where its annotation names none that exists."""
    wanted = preferences.scheduling_class
    if wanted is None and not config.scheduling_classes:
        return None
    classes = {one.name: one for one in config.scheduling_classes}
    if wanted is not None and wanted not in classes:
        return Problem(
            where=f"scheduling-class of {container.path}",
            what=f"no scheduling class {quoted(wanted)}",
            fix=suggestion(wanted, tuple(classes))
            if classes
            else "configure schedulingClasses or leave it out",
        )
    by_qos = {name.lower(): one for name, one in config.pod_qos_scheduling_classes.items()}
    name = (
        wanted
        or config.namespace_scheduling_classes.get(container.pod.namespace)
        or by_qos.get(container.pod.qos.value.lower())
    )
    return None if name is None else classes.get(name)


def scheduling_values(chosen: SchedulingClass) -> Mapping[str, str | int]:
    """Values that the class sets, by the names of its fields in a configuration."""
    values: dict[str, str | int | None] = {
        "policy": chosen.policy.value,
        "priority": chosen.priority,
        "nice": chosen.effective_nice,
        "runtime": chosen.runtime,
        "deadline": chosen.deadline,
        "period": chosen.period,
        "ioClass": None if chosen.io_class is None else chosen.io_class.value,
        "ioPriority": chosen.io_priority,
    }
    return {name: value for name, value in values.items() if value is not None}

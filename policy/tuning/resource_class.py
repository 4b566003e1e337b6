"""Classes of cache and memory bandwidth, and of block devices, that the runtime puts containers in.

What a class stands for is set up elsewhere (resctrl, the runtime's file of block device classes);
here it is only a name. Source: NRI's LinuxResources, fields rdt_class and blockio_class.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ...topology.sets.base_errors import quoted
from ..annotations.preferences import Preferences
from ..configuration.config import BlockIoControl, Config, RdtControl
from ..model.container import Container
from ..text.errors import Problem


class ResourceClasses(Struct, frozen=True, kw_only=True):
    """The classes of a container; "" leaves one to the runtime."""

    rdt: str = ""
    blockio: str = ""


NO_CLASSES: Final = ResourceClasses()


def resource_classes(
    container: Container, preferences: Preferences, config: Config
) -> tuple[ResourceClasses, tuple[Problem, ...]]:
    """A container's own classes, else those of its QoS class where the configuration says so.

    Where the configuration leaves classes off, nobody gets one: a runtime that knows no such class
    would not create the container.
    """
    rdt = _class(container, config.control.rdt, preferences.rdt_class)
    blockio = _class(container, config.control.blockio, preferences.blockio_class)
    problems = tuple(_problems(container, preferences, config))
    if not rdt and not blockio:
        return NO_CLASSES, problems
    return ResourceClasses(rdt=rdt, blockio=blockio), problems


def _class(container: Container, control: RdtControl | BlockIoControl, wish: str | None) -> str:
    if not control.enable:
        return ""
    default = container.pod.qos.value if control.use_pod_qos_as_default_class else ""
    return wish or default


def _problems(container: Container, preferences: Preferences, config: Config) -> Iterator[Problem]:
    for key, wish, field, is_on in (
        ("rdtclass", preferences.rdt_class, "rdt", config.control.rdt.enable),
        ("blockioclass", preferences.blockio_class, "blockio", config.control.blockio.enable),
    ):
        if wish is not None and not is_on:
            yield Problem(
                where=f"{key} of {container.path}",
                what=f"class {quoted(wish)} is left out: this node's configuration has them off",
                fix=f"configure 'control.{field}.enable: true', or leave it out",
            )

"""Names of pens: the pen of a pod, and that of a group of containers in one namespace."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from ..annotations.preferences import Preferences, parse_preferences
from ..model.container import Container, ContainerId, Pod, Resources
from .pod_numbers import are_of_pod

_EPHEMERAL: Final = re.compile(r"debugger-[a-z0-9]{5}")
"""How `kubectl debug` names the containers it adds to a pod that runs; nothing else tells."""


class PenName(Struct, frozen=True):
    """The name of a pen. No runtime has an id with a space in it."""

    id: ContainerId
    is_group: bool = False
    """Its containers share all of it, and it is as large as they are together."""


def pod_pen(pod: Pod) -> PenName:
    """The name of a pod's pen."""
    return PenName(ContainerId(f"pod {pod.id}"))


def wished_pen(container: Container, preferences: Preferences) -> PenName | None:
    """The pen that a container's annotations ask for; None where they ask for none."""
    pod = container.pod
    if preferences.group is not None:
        return PenName(ContainerId(f"group {pod.namespace}/{preferences.group}"), is_group=True)
    return pod_pen(pod) if preferences.pod_pool and not is_outside(container) else None


def pen_by_numbers(
    container: Container, others: Iterable[Container], whole: Resources | None
) -> PenName | None:
    """The pen of a pod whose containers seem to ask for more than the pod has; None without.

    `others`: the other containers of the pod that run; `whole`: the pod's own size.
    """
    if whole is None or is_outside(container):
        return None
    return pod_pen(container.pod) if are_of_pod(whole, (*others, container)) else None


def is_outside(container: Container) -> bool:
    """Whether a container stays out of its pod's pen: an ephemeral one, or one that says so.

    Or that is of a group, which may have had no room when it was adopted.
    """
    preferences = parse_preferences(container)
    if preferences.pod_pool is False or preferences.group is not None:
        return True
    return _EPHEMERAL.fullmatch(container.name) is not None

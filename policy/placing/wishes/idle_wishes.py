"""Wishes about cpus of its own of a container that has none: written well, and without effect."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from ...annotations.annotations import Setting, effective
from ...annotations.preferences import Chosen, Preferences, parse_preferences
from ...model.container import Container, ContainerId, QosClass
from ...model.cpu_preference import CpuPriority, QuotaUse, SmtPreference
from ...model.request import CpuType, Request
from ...text.errors import Problem

_WISHES: Final[Mapping[str, Callable[[Preferences], bool]]] = {
    "smt": lambda said: said.smt in (SmtPreference.PACK, SmtPreference.SPREAD),
    "require-isolated-cpus": lambda said: _is_true(said.require_isolated),
    "prefer-isolated-cpus": lambda said: _is_true(said.prefer_isolated),
    "prefer-cpu-priority": lambda said: said.cpu_priority not in (None, CpuPriority.NONE),
    "quota": lambda said: said.quota is QuotaUse.LIFT,
}
"""Whether an annotation wants something of cpus that are a container's own. Threads of a core are
hidden from those who share them, too."""


def idle_wishes(
    containers: Sequence[Container],
    requests: Mapping[ContainerId, Request],
    penned: Collection[ContainerId],
) -> list[Problem]:
    """Advice about annotations that serve no container of a pod, one of each.

    `penned`: containers in a pen, whose cpus such a wish is about. What a rule of the configuration
    gives is passed over: it is for many pods.
    """
    served: set[str] = set()
    idle: dict[str, Problem] = {}
    for container in containers:
        given = {one.key for one in container.given}
        said = parse_preferences(container)
        request = requests[container.id]
        has_own = container.id in penned or bool(request.exclusive)
        for key, is_wish in _WISHES.items():
            setting = effective(container.pod.annotations, key, container.name)
            if setting is None or setting.key in given or not is_wish(said):
                continue
            if has_own:
                served.add(setting.key)
            else:
                idle.setdefault(setting.key, _unserved(setting, container, request, said))
    return [problem for key, problem in idle.items() if key not in served]


def _is_true(chosen: Chosen[bool] | None) -> bool:
    return chosen is not None and chosen.value


def _unserved(
    setting: Setting, container: Container, request: Request, said: Preferences
) -> Problem:
    why, fix = _cause(container, request, said)
    return Problem(
        where=f"{setting.key} of {container.path}",
        what=f"it has no CPUs of its own, as {why}, and this is about those alone",
        fix=fix,
        is_advice=True,
        container=container.name,
    )


def _cause(container: Container, request: Request, said: Preferences) -> tuple[str, str]:
    """The reason that a container has no cpus of its own, and what to do."""
    if request.cpu_type is CpuType.PRESERVE:
        return "it keeps those that it has from elsewhere", "leave it out"
    if request.cpu_type is CpuType.RESERVED:
        return "it is on the reserved ones", "leave it out"
    if container.pod.qos is not QosClass.GUARANTEED and said.exclusive is None:
        fix = (
            "set limits of CPU and memory equal to the requests in all containers of the pod,"
            " or add 'exclusive.pinfold.dev'"
        )
        return f"its pod is {container.pod.qos.value}", fix
    shared = said.prefer_shared
    if container.resources.cpu_request_milli >= 1000 and shared is not None and shared.value:
        return f"{shared.key} makes it share them", "leave out one of them"
    return "it asks for no whole ones", "ask for whole CPUs, or leave it out"

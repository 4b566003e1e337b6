"""Cpus that a container has for itself by annotation: of any class of pods, and as whole cores.

The kubelet counted nothing of it, so the node may be short of such cpus although it admitted the
pod. Unless `on-unsatisfiable` says otherwise, a container then gets what it would have had without
the annotation, and is told so.
"""

from contextlib import suppress

from msgspec.structs import replace

from ....topology.model.machine import Machine
from ...annotations.annotation_values import AS_REQUESTED, is_whole_cores
from ...annotations.annotations import Scope, effective
from ...annotations.preferences import Preferences
from ...configuration.config import Config, OnUnsatisfiable
from ...model.container import Container
from ...model.cpu_preference import SmtPreference
from ...model.grant import Grant
from ...model.request import CpuType, Isolation, Request
from ...text.errors import Problem

EXCLUSIVE_KEY = "exclusive"
HIDE_KEY = "hide-hyperthreads"


def own_count(container: Container, preferences: Preferences, cpu_type: CpuType) -> int:
    """The number of cpus a container wants for itself by annotation; 0 where it says nothing."""
    wish = preferences.exclusive
    if wish is None or cpu_type is not CpuType.NORMAL:
        return 0
    if wish != AS_REQUESTED:
        return wish
    return -(-container.resources.cpu_request_milli // 1000)


def wants_own_cpus(container: Container) -> bool:
    """Whether an annotation wants cpus for a container itself."""
    if not container.pod.annotations:
        return False
    return effective(container.pod.annotations, EXCLUSIVE_KEY, container.name) is not None


def without_own_cpus(container: Container) -> Container:
    """The container without annotations that want cpus, or whole cores, for single ones of a pod.

    Whole cores for all of a pod's containers stay: they are for the pod as well.
    """
    pod = container.pod
    kept = {
        key: text for key, text in pod.annotations.items() if key.partition(".")[0] != EXCLUSIVE_KEY
    }
    hidden = effective(pod.annotations, HIDE_KEY, container.name) if kept else None
    if hidden is not None and hidden.scope is Scope.CONTAINER and is_whole_cores(hidden.value):
        kept.pop(hidden.key, None)
    if len(kept) == len(pod.annotations):
        return container
    return replace(container, pod=replace(pod, annotations=kept))


def with_own_cpus(
    request: Request,
    count: int,
    isolation: Isolation,
    preferences: Preferences,
    machine: Machine | None,
    *,
    can_yield: bool,
) -> Request:
    """The request with the cpus that annotations want for it, and what it falls back to.

    `can_yield`: whether it may have less where there is no room for that.
    """
    if count:
        less = request if can_yield else None
        request = replace(
            request,
            exclusive=count,
            shared_milli=0,
            isolation=isolation,
            is_unlimited=False,
            fallback=less,
        )
    threads = machine.threads_per_core_max if machine is not None else 1
    if not preferences.whole_cores or not request.exclusive or threads == 1:
        return request
    # One thread of each of more cores would leave their siblings to others.
    smt = SmtPreference.ANY if request.smt is SmtPreference.SPREAD else request.smt
    return replace(
        request,
        exclusive=threads * request.exclusive,
        whole_cores=True,
        smt=smt,
        fallback=request if can_yield else None,
    )


def can_yield(container: Container, config: Config) -> bool:
    """Whether a container may have less than it must, by its annotation or the configuration."""
    own = effective(container.pod.annotations, "on-unsatisfiable", container.name)
    fate = config.on_unsatisfiable
    if own is not None:
        # What cannot be read is told by who reads the rules.
        with suppress(ValueError):
            fate = OnUnsatisfiable.parse(own.value)
    return fate is OnUnsatisfiable.DEGRADE


def shortfall(container: Container, request: Request, grant: Grant) -> Problem | None:
    """The problem of a container that has fewer own cpus than its annotation wants."""
    if request.fallback is None or len(grant.exclusive) >= request.exclusive:
        return None
    key = HIDE_KEY if request.whole_cores else EXCLUSIVE_KEY
    setting = effective(container.pod.annotations, key, container.name)
    wanted = f"{request.exclusive} CPUs for itself"
    if request.whole_cores:
        wanted = f"whole cores, {wanted},"
    has = f"it has {len(grant.exclusive)}" if grant.exclusive else "it runs on shared ones"
    return Problem(
        where=f"{setting.key if setting is not None else key} of {container.path}",
        what=f"no room for {wanted} so {has}",
        fix="ask for fewer, or free some",
        container=container.name,
    )


def unbooked_claim(container: Container, request: Request, grant: Grant) -> Problem | None:
    """The problem of a claim of which some cpus are others', or owed to others."""
    if not request.claimed or grant.exclusive == request.claimed:
        return None
    rest = request.claimed - grant.exclusive
    return Problem(
        where=container.path,
        what=f"cpus {rest} of its claim ({request.claimed}) are not free for it alone",
        fix="keep the driver's cpus and Pinfold's apart, with availableResources.cpu",
        container=container.name,
    )

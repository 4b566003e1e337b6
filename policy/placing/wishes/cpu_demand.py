"""Demands of containers for cpus: of which type, how many alone, and what share of others."""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from ...annotations.preferences import Preferences
from ...configuration.config import Config
from ...model.container import Container, QosClass
from ...model.request import CpuType, Isolation
from ...text.glob import compile_glob

SYSTEM_NAMESPACE: Final = "kube-system"


class CpuDemand(Struct, frozen=True, kw_only=True):
    """The cpus that serve a container's request: their type, their number and the share."""

    type: CpuType = CpuType.NORMAL
    exclusive: int = 0
    shared_milli: int = 0
    isolation: Isolation = Isolation.NO
    is_unlimited: bool = False
    limit_milli: int | None = None


def demanded_cpus(container: Container, preferences: Preferences, config: Config) -> CpuDemand:
    """The demand of a container. The first rule that fits counts."""
    milli = container.resources.cpu_request_milli
    qos = container.pod.qos
    if preferences.preserve_cpu or container.claimed is not None:
        return CpuDemand(type=CpuType.PRESERVE, shared_milli=milli)
    is_reserved = preferences.prefer_reserved
    if is_reserved is None:
        is_reserved = _is_reserved_namespace(
            container.pod.namespace, config.reserved_pool_namespaces
        )
    if is_reserved:
        return CpuDemand(type=CpuType.RESERVED, shared_milli=milli)
    if qos is QosClass.BURSTABLE:
        limit = container.resources.cpu_limit_milli
        return CpuDemand(shared_milli=milli, limit_milli=limit, is_unlimited=limit is None)
    if qos is QosClass.BEST_EFFORT:
        return CpuDemand()
    return _demanded_of_guaranteed(milli, preferences, config)


def _demanded_of_guaranteed(milli: int, preferences: Preferences, config: Config) -> CpuDemand:
    whole, rest = divmod(milli, 1000)
    shared = preferences.prefer_shared
    wants_shared = config.prefer_shared_cpus if shared is None else shared.value
    is_opted_out = shared is not None and not shared.value
    # More than one cpu and a rest: mixed cpusets are only for those who ask for them.
    if not whole or wants_shared or (whole > 1 and rest and not is_opted_out):
        return CpuDemand(shared_milli=milli)
    isolation, is_annotated = wished_isolation(preferences, config)
    if whole > 1 and not rest and not is_annotated:
        # Isolated cpus are few: several of them only for those who say so themselves.
        isolation = Isolation.NO
    return CpuDemand(exclusive=whole, shared_milli=rest, isolation=isolation)


def wished_isolation(preferences: Preferences, config: Config) -> tuple[Isolation, bool]:
    """Whether isolated cpus are wanted, and whether an annotation says so."""
    chosen, is_required = preferences.isolated
    if chosen is None:
        return (Isolation.PREFERRED if config.prefer_isolated_cpus else Isolation.NO), False
    if is_required:
        return Isolation.REQUIRED, True
    return (Isolation.PREFERRED if chosen.value else Isolation.NO), True


@lru_cache(maxsize=1024)
def _is_reserved_namespace(namespace: str, globs: tuple[str, ...]) -> bool:
    return namespace == SYSTEM_NAMESPACE or any(
        compile_glob(glob).matches(namespace) for glob in globs
    )

"""Where interrupts go: to the cpus of containers that claim them, away from those that mask them.

Nothing here touches an interrupt: the daemon writes /proc/irq/N/smp_affinity_list.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..topology.cpuset import CpuSet
from .annotations import Scope
from .classify import classify_cpu
from .config import Config
from .container import Container, ContainerId, QosClass
from .decision import Grant
from .glob import compile_glob
from .preferences import Preferences, parse_preferences
from .settings import IrqAffinity, IrqMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """A line of /proc/interrupts. `affinity`: the cpus that served it before we touched it."""

    number: int
    description: str
    affinity: CpuSet


def objection(container: Container, config: Config, interrupts: Sequence[Interrupt]) -> str:
    """Why a container cannot have what it asks of interrupts; empty where it can.

    Only what a container asks for itself can refuse it: wider annotations do not fit every
    container of a pod and are passed over where they cannot apply.
    """
    preferences = parse_preferences(container)
    chosen = preferences.irq_affinity
    if chosen is None:
        return ""
    misfit = _misfit(container, preferences, config)
    if misfit:
        return f"{container.path}: {misfit}" if chosen.scope is Scope.CONTAINER else ""
    for pattern in (*chosen.value.claim, *chosen.value.mask):
        for one in interrupts:
            if _matches(pattern, one) and not is_controllable(one, config):
                return (
                    f"{container.path}: denied interrupt: {one.number} ({one.description}) is"
                    f" denied but matched by user pattern {pattern!r} — add it to"
                    " controllableInterrupts or name another"
                )
    return ""


def wish(container: Container, config: Config) -> IrqAffinity | None:
    """What a container asks of interrupts; None where it asks nothing or cannot ask."""
    preferences = parse_preferences(container)
    chosen = preferences.irq_affinity
    if chosen is None or _misfit(container, preferences, config):
        return None
    return chosen.value


def targets(
    interrupts: Iterable[Interrupt],
    wishes: Iterable[tuple[IrqAffinity, CpuSet]],
    config: Config,
) -> Mapping[int, CpuSet]:
    """The cpus every controllable interrupt should be served by, by its number.

    `wishes`: with the exclusive cpus they are about. An interrupt that nobody claims or masks goes
    back to where it was; so does one of which nothing would be left.
    """
    known = list(wishes)
    return {one.number: _target(one, known) for one in interrupts if is_controllable(one, config)}


def is_controllable(interrupt: Interrupt, config: Config) -> bool:
    """Whether the configuration lets containers move it; no globs mean all."""
    globs = config.controllable_interrupts
    return not globs or any(_matches(one, interrupt) for one in globs)


def wishes_of(
    grants: Iterable[Grant], containers: Mapping[ContainerId, Container], config: Config
) -> list[tuple[IrqAffinity, CpuSet]]:
    """The wishes of those who hold exclusive cpus, oldest first."""
    found: list[tuple[IrqAffinity, CpuSet]] = []
    for grant in grants:
        if grant.exclusive and (asked := wish(containers[grant.container_id], config)):
            found.append((asked, grant.exclusive))
    return found


def _target(one: Interrupt, wishes: Sequence[tuple[IrqAffinity, CpuSet]]) -> CpuSet:
    claimed, masked_first, masked_last = CpuSet(), CpuSet(), CpuSet()
    for asked, cpus in wishes:
        if _matches_any(asked.claim, one):
            claimed |= cpus
        if _matches_any(asked.mask, one):
            if asked.mode is IrqMode.CLAIM_FIRST:
                masked_first |= cpus
            else:
                masked_last |= cpus
    # A container that claims some interrupts and masks "*" keeps those it claims.
    kept_away = masked_first | (masked_last - claimed)
    target = (claimed or one.affinity) - kept_away
    return target or one.affinity


def _misfit(container: Container, preferences: Preferences, config: Config) -> str:
    qos = container.pod.qos
    if qos is not QosClass.GUARANTEED:
        return f"invalid IRQ affinity, QoS class {qos.value} is not Guaranteed"
    if not classify_cpu(container, preferences, config).exclusive:
        return "IRQ affinity is invalid without exclusive CPUs — ask for whole cpus"
    return ""


def _matches_any(patterns: Iterable[str], one: Interrupt) -> bool:
    return any(_matches(pattern, one) for pattern in patterns)


def _matches(pattern: str, one: Interrupt) -> bool:
    if pattern.isascii() and pattern.isdigit():
        return int(pattern) == one.number
    return compile_glob(pattern, separator="").matches(one.description)

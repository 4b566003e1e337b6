"""Where interrupts go: to the cpus of containers that claim them, away from those that mask them.

Nothing here touches an interrupt: the daemon writes /proc/irq/N/smp_affinity_list.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..topology.cpuset import CpuSet
from .annotations import Scope
from .container import Container, QosClass
from .errors import Problem
from .glob import compile_glob
from .preferences import Preferences
from .settings import IrqAffinity, IrqMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """A line of /proc/interrupts. `affinity`: the cpus that served it before we touched it."""

    number: int
    description: str
    affinity: CpuSet

    def __str__(self) -> str:
        return f"{self.number} ({self.description})"


class InterruptTable:
    """The machine's interrupts, and which of them containers may move. Looks up a pattern once."""

    def __init__(
        self, interrupts: Sequence[Interrupt] = (), controllable: Sequence[str] = ()
    ) -> None:
        """`controllable`: patterns of those that may be moved; none means all."""
        self.interrupts = tuple(interrupts)
        self._matching: dict[str, tuple[Interrupt, ...]] = {}
        free = {one.number for pattern in controllable for one in self._match(pattern)}
        self._denied = frozenset(
            one.number for one in interrupts if controllable and one.number not in free
        )

    def denied(self, pattern: str) -> Interrupt | None:
        """The first interrupt of a pattern that must not be moved; None where all may."""
        if not self._denied:
            return None
        return next((one for one in self._matches(pattern) if one.number in self._denied), None)

    def matching(self, pattern: str) -> list[Interrupt]:
        """The interrupts of a pattern that may be moved."""
        return [one for one in self._matches(pattern) if one.number not in self._denied]

    def _matches(self, pattern: str) -> tuple[Interrupt, ...]:
        found = self._matching.get(pattern)
        if found is None:
            found = self._matching[pattern] = self._match(pattern)
        return found

    def _match(self, pattern: str) -> tuple[Interrupt, ...]:
        if pattern.isascii() and pattern.isdigit():
            number = int(pattern)
            return tuple(one for one in self.interrupts if one.number == number)
        glob = compile_glob(pattern, separator="")
        return tuple(one for one in self.interrupts if glob.matches(one.description))


@dataclass(frozen=True, slots=True)
class Routing:
    """The cpus of the interrupts that somebody claims or masks, by number, and what was refused."""

    targets: Mapping[int, CpuSet]
    warnings: tuple[str, ...] = ()


def irq_wish(
    container: Container, preferences: Preferences, exclusive: int, table: InterruptTable
) -> tuple[IrqAffinity | None, tuple[Problem, ...]]:
    """What a container asks of interrupts, None where it asks nothing or cannot; and why not.

    `exclusive`: how many cpus it gets for itself. Wider annotations do not fit every container of a
    pod: they are passed over where they cannot apply. What a container asks for itself must apply.
    """
    chosen = preferences.irq_affinity
    if chosen is None:
        return None, ()
    qos, what, fix = container.pod.qos, "", ""
    if qos is not QosClass.GUARANTEED:
        what = f"invalid IRQ affinity, QoS class {qos.value} is not Guaranteed"
        fix = "set limits equal to requests"
    elif not exclusive:
        what = "IRQ affinity is invalid without exclusive CPUs"
        fix = "ask for whole cpus"
    if what and chosen.scope is not Scope.CONTAINER:
        return None, ()
    if not what:
        for pattern in (*chosen.value.claim, *chosen.value.mask):
            if (one := table.denied(pattern)) is not None:
                what = f"denied interrupt: {one} is denied but matched by user pattern {pattern!r}"
                fix = "add it to controllableInterrupts or name another"
                break
    if not what:
        return chosen.value, ()
    where = f"{chosen.key} of {container.path}"
    return None, (Problem(where=where, what=what, fix=fix, is_fatal=True),)


def route(
    table: InterruptTable, wishes: Iterable[tuple[IrqAffinity, CpuSet]], allowed: CpuSet
) -> Routing:
    """Where interrupts should go so that every wish about some exclusive cpus comes true.

    A masked interrupt keeps those of its cpus that nobody masks; where that leaves none, it goes to
    all `allowed` ones that nobody masks. One of which nothing at all would be left stays where it
    was, with a warning.
    """
    asked: dict[int, _Asked] = {}
    for wish, cpus in wishes:
        for pattern in wish.claim:
            for one in table.matching(pattern):
                asked.setdefault(one.number, _Asked(one)).claimed |= cpus
        for pattern in wish.mask:
            for one in table.matching(pattern):
                entry = asked.setdefault(one.number, _Asked(one))
                if wish.mode is IrqMode.CLAIM_FIRST:
                    entry.masked_first |= cpus
                else:
                    entry.masked_last |= cpus
    targets: dict[int, CpuSet] = {}
    warnings: list[str] = []
    for number, entry in sorted(asked.items()):
        target = entry.target(allowed)
        targets[number] = target or entry.interrupt.affinity
        if not target:
            warnings.append(
                f"interrupt {entry.interrupt}: masked on every cpu it could go to, so it stays on"
                f" {entry.interrupt.affinity} — mask it in fewer containers"
            )
    return Routing(targets, tuple(warnings))


@dataclass(slots=True)
class _Asked:
    """What all containers together ask of one interrupt."""

    interrupt: Interrupt
    claimed: CpuSet = field(default_factory=CpuSet)
    masked_first: CpuSet = field(default_factory=CpuSet)
    masked_last: CpuSet = field(default_factory=CpuSet)

    def target(self, allowed: CpuSet) -> CpuSet:
        # A container that claims some interrupts and masks "*" keeps those it claims.
        kept_away = self.masked_first | (self.masked_last - self.claimed)
        if self.claimed:
            return self.claimed - kept_away
        return self.interrupt.affinity - kept_away or allowed - kept_away

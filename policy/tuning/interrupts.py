"""Routes of interrupts: to cpus of containers that claim them, away from those that mask them.

Nothing here touches an interrupt: the daemon writes /proc/irq/N/smp_affinity_list.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from ...topology.sets.cpuset import CpuSet
from ..annotations.annotation_values import IrqAffinity, IrqMode, steps_per_character
from ..annotations.annotations import Scope
from ..annotations.preferences import Preferences
from ..hints.hint_filter import is_wanted
from ..model.container import Container, QosClass
from ..text.errors import Problem
from ..text.glob import compile_glob
from .exclusive_remedy import exclusive_remedy

_SPECIAL: Final = frozenset("*?[\\")

STEPS_MAX: Final = 50_000
"""Of looking up the patterns of one container; a glob takes one for each character it looks at."""

_REMEMBERED_MAX: Final = 256
"""Patterns; each is at most an annotation long."""


class Interrupt(Struct, frozen=True, kw_only=True):
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
        self._characters = sum(len(one.description) for one in interrupts)
        self._matching: dict[str, tuple[Interrupt, ...]] = {}
        free = {one.number for pattern in controllable for one in self._match(pattern)}
        self._denied = frozenset(
            one.number for one in interrupts if controllable and one.number not in free
        )

    def steps(self, wish: IrqAffinity) -> int:
        """Steps it takes to look up all patterns of a wish that were not looked up before."""
        patterns = {*wish.claim, *wish.mask, *wish.devices} - self._matching.keys()
        return sum(
            len(self.interrupts)
            if _word_of(one) is not None
            else self._characters * steps_per_character(one)
            for one in patterns
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
            found = self._match(pattern)
            if len(self._matching) >= _REMEMBERED_MAX:
                self._matching.clear()
            self._matching[pattern] = found
        return found

    def _match(self, pattern: str) -> tuple[Interrupt, ...]:
        if pattern.isascii() and pattern.isdigit():
            number = int(pattern)
            return tuple(one for one in self.interrupts if one.number == number)
        matches = _test_of(pattern)
        return tuple(one for one in self.interrupts if matches(one.description))


class Routing(Struct, frozen=True):
    """Cpus of the interrupts that containers claim or mask, by number, and what was refused."""

    targets: Mapping[int, CpuSet]
    warnings: tuple[str, ...] = ()


def irq_wish(
    container: Container, preferences: Preferences, exclusive: int, table: InterruptTable
) -> tuple[IrqAffinity | None, tuple[Problem, ...]]:
    """The wish of a container about interrupts, None where it has none or cannot; and why not.

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
        fix = exclusive_remedy(container, preferences)
    if what and chosen.scope is not Scope.CONTAINER:
        return None, ()
    where = f"{chosen.key} of {container.path}"
    if not what and (steps := table.steps(chosen.value)) > STEPS_MAX:
        # No fault of meaning: nobody is refused because looking is dear here.
        what = f"left out: its patterns take {steps} steps to look up among {len(table.interrupts)}"
        fix = f"write fewer, or none with [] or * inside: at most {STEPS_MAX} steps"
        return None, (Problem(where=where, what=what, fix=fix),)
    if not what:
        for pattern in (*chosen.value.claim, *chosen.value.mask):
            if (one := table.denied(pattern)) is not None:
                what = f"denied interrupt: {one} is denied but matched by user pattern {pattern!r}"
                fix = "add it to controllableInterrupts or name another"
                break
    if what:
        return None, (Problem(where=where, what=what, fix=fix, is_fatal=True),)
    if not chosen.value.devices:
        return chosen.value, ()
    return _with_devices(container, preferences, chosen.value, table, where)


def _with_devices(
    container: Container,
    preferences: Preferences,
    wish: IrqAffinity,
    table: InterruptTable,
    where: str,
) -> tuple[IrqAffinity, tuple[Problem, ...]]:
    """The wish with what it says of the container's devices as claims of numbers; advice if none.

    There is none on a machine on paper, of which no interrupt is known. One that must not be moved
    refuses nobody: the pod names none of them.
    """
    wanted = (hint for hint in container.hints if is_wanted(hint, preferences))
    numbers = {number for hint in wanted for number in hint.interrupts}
    claimed = {
        one.number: str(one.number)
        for pattern in wish.devices
        for one in table.matching(pattern)
        if one.number in numbers
    }
    wish = structs.replace(wish, claim=(*wish.claim, *claimed.values()), devices=())
    if claimed or not table.interrupts:
        return wish, ()
    why = f"none of {len(numbers)} matches and may be moved" if numbers else "none is known"
    what = f"devices claims no interrupt: of those of the container's devices {why}"
    fix = "see 'pinfold explain' for its hints, and controllableInterrupts"
    return wish, (Problem(where=where, what=what, fix=fix, is_advice=True),)


def route(
    table: InterruptTable, wishes: Iterable[tuple[IrqAffinity, CpuSet]], allowed: CpuSet
) -> Routing:
    """The routing of interrupts that makes every wish about exclusive cpus come true.

    A masked interrupt keeps those of its cpus that nobody masks; where that leaves none, it goes to
    all `allowed` ones that nobody masks. One of which nothing at all would be left stays where it
    was, with a warning.
    """
    targets: dict[int, CpuSet] = {}
    warnings: list[str] = []
    for one, asked in sorted(_asked(table, wishes), key=lambda pair: pair[0].number):
        target = asked.target(one.affinity, allowed)
        targets[one.number] = target or one.affinity
        if not target:
            warnings.append(
                f"interrupt {one}: masked on every cpu it could go to, so it stays on"
                f" {one.affinity} — mask it in fewer containers"
            )
    return Routing(targets, tuple(warnings))


class _Asked(Struct):
    """What containers together ask of an interrupt, or of all of a pattern; masks of cpus."""

    claimed: int = 0
    masked_first: int = 0
    masked_last: int = 0

    def add(self, other: "_Asked") -> None:
        self.claimed |= other.claimed
        self.masked_first |= other.masked_first
        self.masked_last |= other.masked_last

    def target(self, affinity: CpuSet, allowed: CpuSet) -> CpuSet:
        # A container that claims some interrupts and masks "*" keeps those it claims.
        kept_away = CpuSet(self.masked_first | (self.masked_last & ~self.claimed))
        if self.claimed:
            return CpuSet(self.claimed) - kept_away
        return affinity - kept_away or allowed - kept_away


def _asked(
    table: InterruptTable, wishes: Iterable[tuple[IrqAffinity, CpuSet]]
) -> Iterable[tuple[Interrupt, _Asked]]:
    """Every interrupt that somebody asks something of. A pattern is looked at once."""
    by_pattern: dict[str, _Asked] = {}
    for wish, cpus in wishes:
        for pattern in wish.claim:
            by_pattern.setdefault(pattern, _Asked()).claimed |= cpus.mask
        for pattern in wish.mask:
            asked = by_pattern.setdefault(pattern, _Asked())
            if wish.mode is IrqMode.CLAIM_FIRST:
                asked.masked_first |= cpus.mask
            else:
                asked.masked_last |= cpus.mask
    by_number: dict[int, tuple[Interrupt, _Asked]] = {}
    for pattern, asked in by_pattern.items():
        for one in table.matching(pattern):
            if one.number not in by_number:
                by_number[one.number] = one, _Asked()
            by_number[one.number][1].add(asked)
    return by_number.values()


def _test_of(pattern: str) -> Callable[[str], bool]:
    """What tells whether a description matches; most patterns are one word beside stars."""
    word = _word_of(pattern)
    if word is not None and pattern == f"*{word}*":
        return lambda text: word in text
    if word is not None and pattern == f"*{word}":
        return lambda text: text.endswith(word)
    return compile_glob(pattern, separator="").matches


def _word_of(pattern: str) -> str | None:
    """The word that a pattern is, beside stars; None where it takes a glob to match it."""
    word = pattern.strip("*")
    return word if _SPECIAL.isdisjoint(word) else None

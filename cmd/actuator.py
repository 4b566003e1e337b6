"""Turns knobs of the kernel, and turns them back: what is wanted no more gets its original text."""

import errno
import logging
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from ..policy.tuning.effects import Effects, Hardware, Knob, KnobKind
from ..topology.cpuset import CpuSet, IdListError
from ..topology.machine import Machine
from ..topology.speedselect import DEVICE
from .knobs import Knobs
from .originals import Original, Originals
from .speedselectknobs import SPEED_SELECT, as_found, undo_order

_FREQUENCIES: Final = frozenset(
    {
        KnobKind.MIN_FREQUENCY,
        KnobKind.MAX_FREQUENCY,
        KnobKind.UNCORE_MIN,
        KnobKind.UNCORE_MAX,
    }
)

_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.ENOENT: "this machine has no such thing; leave it out of the configuration",
    errno.EROFS: "set ProtectKernelTunables=no for the service",
    errno.EACCES: "run pinfoldd as root",
    errno.EPERM: "run pinfoldd as root; some interrupts the kernel lets nobody move",
    errno.EIO: "some interrupts the kernel lets nobody move; leave them out",
    errno.EINVAL: "the kernel does not take this value here",
    errno.EBUSY: "the driver does not take it with this governor",
}
_LASTING: Final = frozenset({errno.ENOENT, errno.EROFS, errno.EACCES, errno.EPERM})
"""What is refused so stays refused; there may be thousands of such files."""
_SPEED_SELECT: Final = "Speed Select"
_NO_DEVICE: Final = f"load its drivers, and let the service have {DEVICE}"
_SPEED_SELECT_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.ENOENT: _NO_DEVICE,
    errno.ENODEV: _NO_DEVICE,
    errno.EACCES: f"let the service have {DEVICE}",
    errno.EPERM: f"let the service have {DEVICE} and CAP_SYS_ADMIN",
}
_NAMED_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class _Setting:
    knob: Knob
    text: str

    @property
    def kind(self) -> KnobKind:
        return self.knob.kind

    def cause(self, error: OSError) -> str:
        """What tells one reason to be refused from another: not which cpus it is about."""
        match self.kind:
            case KnobKind.IRQ_AFFINITY:
                is_any = error.errno in (errno.EROFS, errno.EACCES)
                return "" if is_any else str(self.knob.number)
            case KnobKind.CSTATE_DISABLED:
                return self.knob.name
            case _:
                return self.text if error.errno == errno.EINVAL else ""


class Actuator:
    """Brings the files behind knobs to what is wanted. Never raises for a file that refuses."""

    def __init__(self, knobs: Knobs, originals: Originals, log: logging.Logger) -> None:
        self._knobs = knobs
        self._originals = originals
        self._log = log
        self._in_force = Effects()
        self._applied: dict[str, str] = {}
        self._said: set[_Cause] = set()
        self._said_of_wanted: set[str] = set()
        self._owners: dict[str, str] = {}

    @property
    def moves_interrupts(self) -> bool:
        """Whether some interrupt is not where it was found."""
        return any(path.startswith("proc/irq/") for path in self._originals.by_path)

    def as_found(self, machine: Machine) -> Machine:
        """The machine without our changes to Speed Select, those of an earlier process included.

        What is picked must not depend on whom we served before. May be called from any thread.
        """
        originals = dict(self._originals.by_path)
        return as_found(machine, {path: one.text for path, one in originals.items()})

    def hardware(self) -> Hardware:
        """What there is to set; interrupts with the cpus that served them before we moved them."""
        found = self._knobs.hardware()
        interrupts = list(found.interrupts)
        for position, one in enumerate(interrupts):
            path = self._knobs.path(Knob(KnobKind.IRQ_AFFINITY, one.number))
            original = self._originals.by_path.get(path)
            if original is not None and original.owner == one.description:
                interrupts[position] = replace(one, affinity=CpuSet.parse(original.text))
            elif original is not None or self._owners.get(path, one.description) != (
                one.description
            ):
                # The number belongs to another device by now.
                self._originals.drop(path)
                self._applied.pop(path, None)
            self._owners[path] = one.description
        return replace(found, interrupts=tuple(interrupts))

    def apply(self, wanted: Effects) -> int:
        """Set what differs and put back what is wanted no more; returns how many files changed."""
        for warning in wanted.warnings:
            if warning not in self._said_of_wanted:
                self._said_of_wanted.add(warning)
                self._log.warning("%s", warning)
        self._in_force = wanted
        failures = _Failures()
        settings = self._settings(wanted, failures)
        todo = {path: one for path, one in settings.items() if self._applied.get(path) != one.text}
        originals = self._originals.by_path
        undo = {
            path: originals[path].text
            for path in sorted(originals, key=undo_order)
            if path not in settings
        }
        for path in self._applied.keys() - settings.keys():
            del self._applied[path]
        changed = self._restore(undo, failures) + self._set(todo, failures)
        self._originals.save()
        self._tell(failures)
        return changed

    def rest(self) -> int:
        """Put back clocks and idle states; interrupts stay with the containers that asked."""
        kept = {
            knob: text
            for knob, text in self._in_force.values.items()
            if knob.kind is KnobKind.IRQ_AFFINITY
        }
        return self.apply(Effects(kept, self._in_force.warnings))

    def _settings(self, wanted: Effects, failures: "_Failures") -> dict[str, _Setting]:
        found: dict[str, _Setting] = {}
        for knob, text in wanted.values.items():
            one = _Setting(knob, text)
            try:
                path = self._knobs.path(knob)
            except OSError as error:
                failures.refuse(one, error)
                continue
            known = found.get(path)
            if known is not None and not _is_faster(knob, text, known.text):
                # Cpus that share a clock cannot differ: the fastest of them decides.
                continue
            found[path] = one
        return found

    def _set(self, todo: Mapping[str, _Setting], failures: "_Failures") -> int:
        differing: dict[str, _Setting] = {}
        for path, one in todo.items():
            self._applied[path] = one.text
            try:
                now = self._knobs.read(path)
            except OSError as error:
                self._refuse(path, one, error, failures)
                continue
            if not _is_same(one.kind, now, one.text):
                self._originals.keep(path, Original(text=now, owner=self._owners.get(path, "")))
                differing[path] = one
        self._originals.save()
        refused = self._write({path: one.text for path, one in differing.items()})
        for path, refusal in refused.items():
            one = differing[path]
            self._refuse(path, one, refusal, failures)
            original = self._originals.by_path.get(path)
            if original is not None and self._holds(path, one.kind, original.text):
                self._originals.drop(path)
        return len(differing) - len(refused)

    def _refuse(self, path: str, one: _Setting, error: OSError, failures: "_Failures") -> None:
        failures.refuse(one, error)
        if error.errno not in _LASTING:
            # A driver may take later what it does not take now.
            del self._applied[path]

    def _restore(self, undo: Mapping[str, str], failures: "_Failures") -> int:
        refused = self._write(undo)
        for path in undo:
            error = refused.get(path)
            if error is None or error.errno == errno.ENOENT:
                self._originals.drop(path)
            else:
                failures.add("original value", path, error, path)
        return len(undo) - len(refused)

    def _write(self, texts: Mapping[str, str]) -> dict[str, OSError]:
        """Write files; returns those that refuse."""
        left = dict(texts)
        refused: dict[str, OSError] = {}
        # A limit may be refused only because the other end of its range is still to be moved.
        for _ in range(2):
            refused = {}
            for path, text in left.items():
                try:
                    self._knobs.write(path, text)
                except OSError as error:
                    refused[path] = error
            left = {path: texts[path] for path in refused}
        return refused

    def _holds(self, path: str, kind: KnobKind, text: str) -> bool:
        try:
            return _is_same(kind, self._knobs.read(path), text)
        except OSError:
            return False

    def _tell(self, failures: "_Failures") -> None:
        for text in failures.texts(self._said):
            self._log.warning("%s", text)
        self._said |= failures.causes


_Cause = tuple[str, int | None, str, str]
"""What refuses, the number and the text of its error, and what it was about."""


class _Failures:
    """Files that refuse, those of one kind and error together: there may be thousands."""

    def __init__(self) -> None:
        self._names: dict[_Cause, dict[str, None]] = {}

    @property
    def causes(self) -> frozenset[_Cause]:
        return frozenset(self._names)

    def refuse(self, one: _Setting, error: OSError) -> None:
        self.add(_label(one.kind), str(one.knob), error, one.cause(error))

    def add(self, kind: str, name: str, error: OSError, cause: str) -> None:
        text = error.strerror or str(error)
        text = text[:1].lower() + text[1:]
        self._names.setdefault((kind, error.errno, text, cause), {}).setdefault(name)

    def texts(self, said: Set[_Cause]) -> Iterator[str]:
        """A warning for each kind and error of which not all causes are said."""
        fresh: dict[tuple[str, int | None, str], dict[str, None]] = {}
        for cause, names in self._names.items():
            if cause not in said:
                fresh.setdefault(cause[:3], {}).update(names)
        for (kind, number, text), names in fresh.items():
            shown = ", ".join([*names][:_NAMED_MAX])
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            remedies = _SPEED_SELECT_REMEDIES if kind == _SPEED_SELECT else _REMEDIES
            remedy = remedies.get(number, "it stays as it is")
            yield f"{kind} of {shown}{more}: {text} — {remedy}"


def _label(kind: KnobKind) -> str:
    """What a refusal calls the knob; one device refuses all of Speed Select alike."""
    return _SPEED_SELECT if kind in SPEED_SELECT else kind.value


def _is_faster(knob: Knob, text: str, than: str) -> bool:
    return knob.kind in _FREQUENCIES and int(text) > int(than)


def _is_same(kind: KnobKind, one: str, other: str) -> bool:
    if kind is not KnobKind.IRQ_AFFINITY:
        return one == other
    try:
        return CpuSet.parse(one) == CpuSet.parse(other)
    except IdListError:
        return False

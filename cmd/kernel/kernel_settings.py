"""Turns knobs of the kernel, and turns them back: what is wanted no more gets its original text."""

import errno
import logging
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from ...policy.tuning.effects import Effects, Hardware, Knob, KnobKind
from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, IdListError
from .knobs import Knobs
from .originals import Original, Originals
from .refused_settings import Cause, KnobSetting, Refusals
from .speed_select_access import as_found, undo_order

_FREQUENCIES: Final = frozenset(
    {
        KnobKind.MIN_FREQUENCY,
        KnobKind.MAX_FREQUENCY,
        KnobKind.UNCORE_MIN,
        KnobKind.UNCORE_MAX,
    }
)

_LASTING: Final = frozenset({errno.ENOENT, errno.EROFS, errno.EACCES, errno.EPERM})
"""What is refused so stays refused; there may be thousands of such files."""


class KernelSettings:
    """Brings the files behind knobs to what is wanted. Never raises for a file that refuses."""

    def __init__(self, knobs: Knobs, originals: Originals, log: logging.Logger) -> None:
        self._knobs = knobs
        self._originals = originals
        self._log = log
        self._in_force = Effects()
        self._applied: dict[str, str] = {}
        self._said: set[Cause] = set()
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
        """The hardware to set; interrupts with the cpus that served them before we moved them."""
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
        return msgspec.structs.replace(found, interrupts=tuple(interrupts))

    def apply(self, wanted: Effects) -> int:
        """Set what differs and put back what is wanted no more; returns how many files changed."""
        for warning in wanted.warnings:
            if warning not in self._said_of_wanted:
                self._said_of_wanted.add(warning)
                self._log.warning("%s", warning)
        self._in_force = wanted
        failures = Refusals()
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

    def _settings(self, wanted: Effects, failures: Refusals) -> dict[str, KnobSetting]:
        found: dict[str, KnobSetting] = {}
        for knob, text in wanted.values.items():
            one = KnobSetting(knob, text)
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

    def _set(self, todo: Mapping[str, KnobSetting], failures: Refusals) -> int:
        differing: dict[str, KnobSetting] = {}
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

    def _refuse(self, path: str, one: KnobSetting, error: OSError, failures: Refusals) -> None:
        failures.refuse(one, error)
        if error.errno not in _LASTING:
            # A driver may take later what it does not take now.
            del self._applied[path]

    def _restore(self, undo: Mapping[str, str], failures: Refusals) -> int:
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

    def _tell(self, failures: Refusals) -> None:
        for text in failures.texts(self._said):
            self._log.warning("%s", text)
        self._said |= failures.causes


def _is_faster(knob: Knob, text: str, than: str) -> bool:
    return knob.kind in _FREQUENCIES and int(text) > int(than)


def _is_same(kind: KnobKind, one: str, other: str) -> bool:
    if kind is not KnobKind.IRQ_AFFINITY:
        return one == other
    try:
        return CpuSet.parse(one) == CpuSet.parse(other)
    except IdListError:
        return False

"""Settings that the kernel refuses, told once for each reason."""

import errno
from collections.abc import Iterator, Mapping, Set
from typing import Final

from msgspec import Struct

from ...policy.tuning.effects import Knob, KnobKind
from ...topology.model.machine import SPEED_SELECT_DEVICE
from .speed_select_access import SPEED_SELECT

_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.ENOENT: "this machine has no such thing; leave it out of the configuration",
    errno.EROFS: "set ProtectKernelTunables=no for the service",
    errno.EACCES: "run pinfoldd as root",
    errno.EPERM: "run pinfoldd as root; some interrupts the kernel lets nobody move",
    errno.EIO: "some interrupts the kernel lets nobody move; leave them out",
    errno.EINVAL: "the kernel does not take this value here",
    errno.EBUSY: "the driver does not take it with this governor",
}
_SPEED_SELECT: Final = "Speed Select"
_NO_DEVICE: Final = f"load its drivers, and let the service have {SPEED_SELECT_DEVICE}"
_SPEED_SELECT_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.ENOENT: _NO_DEVICE,
    errno.ENODEV: _NO_DEVICE,
    errno.EACCES: f"let the service have {SPEED_SELECT_DEVICE}",
    errno.EPERM: f"let the service have {SPEED_SELECT_DEVICE} and CAP_SYS_ADMIN",
}
_NAMED_MAX: Final = 8


class KnobSetting(Struct, frozen=True):
    """A knob and the text it is set to."""

    knob: Knob
    text: str

    @property
    def kind(self) -> KnobKind:
        """The kind of the knob."""
        return self.knob.kind

    def cause(self, error: OSError) -> str:
        """The cause of a refusal that tells it from others: not which cpus it is about."""
        match self.kind:
            case KnobKind.IRQ_AFFINITY:
                is_any = error.errno in (errno.EROFS, errno.EACCES)
                return "" if is_any else str(self.knob.number)
            case KnobKind.CSTATE_DISABLED:
                return self.knob.name
            case _:
                return self.text if error.errno == errno.EINVAL else ""


Cause = tuple[str, int | None, str, str]
"""What refuses, the number and the text of its error, and what it was about."""


class Refusals:
    """Files that refuse, those of one kind and error together: there may be thousands."""

    def __init__(self) -> None:
        self._names: dict[Cause, dict[str, None]] = {}

    @property
    def causes(self) -> frozenset[Cause]:
        """All reasons there were."""
        return frozenset(self._names)

    def refuse(self, one: KnobSetting, error: OSError) -> None:
        """A knob could not be set."""
        self.add(_label(one.kind), str(one.knob), error, one.cause(error))

    def add(self, kind: str, name: str, error: OSError, cause: str) -> None:
        """A setting other than a knob was refused."""
        text = error.strerror or str(error)
        text = text[:1].lower() + text[1:]
        self._names.setdefault((kind, error.errno, text, cause), {}).setdefault(name)

    def texts(self, said: Set[Cause]) -> Iterator[str]:
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

"""Instruments with their values.

Instruments, units and labels are those of the Go policy, without those of cache control.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...text.glob import compile_glob

ZONES: Final = "policy/topologyaware"
SYSTEM: Final = "policy/system"

Labels = Sequence[Mapping[str, str]]


class Gauge(Struct, frozen=True, kw_only=True):
    """One instrument with its values, each of which has labels of its own.

    Labels and values are apart: a large machine has thousands, and only the values change.
    """

    name: str
    unit: str
    """As OpenTelemetry has it; empty for mere counts."""
    help: str
    group: str
    """A group and a subsystem, by which it is selected."""
    labels: Labels = ({},)
    """One for each value; the same object as before where nothing changed."""
    values: Sequence[float]


def is_selected(group: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches a group with its subsystem, or one of the two alone.

    >>> is_selected("policy/system", ["policy"]), is_selected("policy/system", ["*/topology*"])
    (True, False)
    """
    names = {group, *group.split("/")}
    return any(compile_glob(pattern).matches(name) for pattern in patterns for name in names)


def system_gauge(name: str, unit: str, text: str, labels: Labels, values: Sequence[float]) -> Gauge:
    """A gauge of the machine as a whole."""
    return Gauge(
        name=f"policy.{name}", unit=unit, help=text, group=SYSTEM, labels=labels, values=values
    )

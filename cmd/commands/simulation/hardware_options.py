"""Options about a simulated node: devices for resources, and how its kubelet protects memory."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Final

import click

from ....policy.model.memory_qos import MemoryQos
from ....topology.model.machine import Machine


def device_names(texts: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Names of devices, or patterns, by resource, from texts like `example.com/gpu=0000:3b:*`.

    Raises `click.UsageError`.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        resource, _, names = text.partition("=")
        if not resource or not all(names.split(",")):
            raise click.UsageError(
                f"--device {text!r}: what is it — write RESOURCE=NAME, as in example.com/gpu=card0"
            )
        found[resource] = (*found.get(resource, ()), *names.split(","))
    return found


def check_devices(devices: Mapping[str, tuple[str, ...]], machine: Machine) -> None:
    """Raise `click.UsageError` where the machine has no device of a name."""
    known = sorted({one.name for one in machine.devices})
    for resource, names in devices.items():
        for name in names:
            if not fnmatch.filter(known, name):
                listed = ", ".join(known) or "none"
                raise click.UsageError(
                    f"--device {resource}={name}: the machine has no such device — its devices:"
                    f" {listed}"
                )


_POLICIES: Final = {one.value: one for one in MemoryQos}


def _policy(_context: click.Context, _parameter: click.Parameter, text: str) -> MemoryQos:
    return _POLICIES[text]


memory_qos_option: Final = click.option(
    "--memory-qos",
    type=click.Choice([*_POLICIES], case_sensitive=False),
    default=MemoryQos.OFF.value,
    show_default=True,
    callback=_policy,
    help="The kubelet's memoryReservationPolicy, where its feature MemoryQoS is on.",
)
"""A command's `--memory-qos`: `memory_qos`, a `MemoryQos`."""

"""The option that says how the kubelet of an emulated node protects memory."""

from typing import Final

import click

from ....policy.model.memory_qos import MemoryQos

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

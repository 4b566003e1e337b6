"""The option that says how the kubelet of an emulated node protects memory."""

from collections.abc import Callable
from typing import Final, TypeVar

import click

from ....policy.model.memory_qos import MemoryQos

_POLICIES: Final = {one.value: one for one in MemoryQos}

Command = TypeVar("Command", bound=Callable[..., object])


def memory_qos_option(command: Command) -> Command:
    """Add `--memory-qos`, whose value `memory_qos_of` reads."""
    return click.option(
        "--memory-qos",
        "memory_qos",
        type=click.Choice([*_POLICIES], case_sensitive=False),
        default=MemoryQos.OFF.value,
        show_default=True,
        help="The kubelet's memoryReservationPolicy, where its feature MemoryQoS is on.",
    )(command)


def memory_qos_of(text: str) -> MemoryQos:
    """The policy of a value that the option has accepted."""
    return _POLICIES[text]

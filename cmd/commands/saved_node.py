"""The node that a state file describes: its containers in an engine, without its daemon."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from ...policy.configuration.config_text import config_from_values
from ...policy.engine.engine import Engine
from ...policy.tuning.interrupts import Interrupt
from ...topology.drawing.fingerprint import machine_fingerprint, machine_summary
from ...topology.model.machine import Machine
from ...topology.sets.base_errors import PinfoldError, os_reason
from ..daemon.machine_source import machine_of
from ..report.path_type import PathType
from ..state.state_file import STATE_NAME, State, StateFileError, load_state, parse_state
from .bundle.support_bundle import STATE, is_bundle, read_bundle

DEFAULT_STATE: Final = Path("/var/lib/pinfold")


class SavedStateError(PinfoldError):
    """The state to plan with is missing, or it is of another machine."""


state_option: Final = click.option(
    "--state",
    "state_path",
    type=PathType(path_type=Path, remedy="name a state file, its folder or a support bundle"),
    default=DEFAULT_STATE,
    show_default=True,
    metavar="FILE|DIR",
    help="What runs: the state file of the daemon, the folder it is in, or a support bundle.",
)
"""A command's `--state`: `state_path`."""


def saved_state(path: Path) -> State:
    """The state in a file, in the file of a folder, or in a support bundle.

    Raises `SavedStateError` and `BundleError`.
    """
    if is_bundle(path):
        try:
            return parse_state(path, read_bundle(path, STATE))
        except StateFileError as error:
            raise SavedStateError(f"{error} — gather it anew") from error
    file = path / STATE_NAME if os.path.isdir(path) else path
    try:
        return load_state(file)
    except StateFileError as error:
        advice = "the daemon puts it aside and writes a good one when it starts"
        raise SavedStateError(f"{error} — {advice}") from error
    except OSError as error:
        raise SavedStateError(
            f"{file}: {os_reason(error)} — name the folder that pinfoldd has as its --state-dir"
        ) from error


class MachineOptions(Struct, frozen=True):
    """Options `--sysfs-root` and `--machine` as they count for a state; at most one is there."""

    sysfs_root: str | None = None
    spec: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any is there: else this machine is meant."""
        return not self.sysfs_root is self.spec is None

    def for_state(self, state: State | None, path: Path | None) -> "MachineOptions":
        """The options; without any, those of the machine that a state, or its bundle, is of."""
        if self.is_given:
            return self
        if state is not None and state.machine.spec:
            return MachineOptions(spec=state.machine.spec)
        is_inside = path is not None and is_bundle(path)
        return MachineOptions(sysfs_root=str(path)) if is_inside else self

    def machine(self) -> Machine:
        """The machine that is meant. Raises `TopologyError`, and `click.UsageError` for both."""
        return machine_of(self.sysfs_root, self.spec)


def saved_engine(state: State, machine: Machine, interrupts: tuple[Interrupt, ...] = ()) -> Engine:
    """An engine with the containers of a state, under its configuration.

    Raises `SavedStateError` where the state is of another machine.
    """
    check_machine(state, machine)
    config = config_from_values(state.config, "the state's configuration")
    engine = Engine(machine, config, interrupts=interrupts)
    engine.synchronize(state.running(), state.advice())
    return engine


def check_machine(state: State, machine: Machine) -> None:
    """Raise `SavedStateError` where a state is of another machine."""
    if state.machine.fingerprint != machine_fingerprint(machine):
        raise SavedStateError(
            f"state: of another machine ({state.machine.summary}; this one has"
            f" {machine_summary(machine)}) — name that one with --sysfs-root or --machine"
        )


def cut_pods(state: State) -> Iterator[str]:
    """Warnings of pods that are planned by what they ask the kubelet for alone."""
    for pod in state.pods:
        if pod.is_cut:
            yield (
                f"{pod.namespace}/{pod.name}: too long to be kept — planned without its"
                " annotations, labels and hints"
            )

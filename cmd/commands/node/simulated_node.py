"""The running node that a simulation goes on from: a saved state, or that of the daemon."""

from dataclasses import dataclass
from pathlib import Path

import click
from click.decorators import FC

from ....policy.configuration.config_text import CheckedConfig
from ....policy.scenarios.running_node import RunningNode
from ....policy.scenarios.scenario_file import Scenario
from ....policy.scenarios.step import Start
from ....policy.text.yaml_fields import FieldError
from ....topology.model.machine import Machine
from ...control.control_client import ControlClient
from ...kernel.knobs import Knobs
from ...report.path_type import PathType
from ...state.state_file import State
from ..options import control_option
from ..saved_node import cut_pods, saved_engine, saved_state


@dataclass(frozen=True, slots=True)
class NodeSource:
    """The source of a running node's state, as the options say; false where they name none."""

    state_path: Path | None
    is_running: bool
    control: Path | None

    def __post_init__(self) -> None:
        if self.state_path is not None and self.is_running:
            raise click.UsageError("--state and --running exclude each other; give one")
        if self.control is not None and not self.is_running:
            raise click.UsageError("--control says which daemon to ask: give --running with it")

    def __bool__(self) -> bool:
        return self.is_running or self.state_path is not None

    @property
    def name(self) -> str:
        """The node as results call it."""
        return "this node as it runs" if self.state_path is None else str(self.state_path)

    def state(self) -> State:
        """The node's state. Raises `SavedStateError` and `ControlError`."""
        path = self.state_path
        state = ControlClient(self.control).state() if path is None else saved_state(path)
        for warning in cut_pods(state):
            click.echo(f"warning: {warning}", err=True)
        return state

    def check(self, scenario: Scenario) -> None:
        """Raise `FieldError` for a scenario that does not go on from a node, but begins anew."""
        if scenario.topology or any(isinstance(step, Start) for step in scenario.steps):
            raise FieldError(
                f"{scenario.where}: names its own topology or starts the policy — leave that out to"
                " go on from a running node, or leave --state and --running out"
            )


def running_node(
    state: State, machine: Machine, root: Path | None, config: CheckedConfig | None
) -> RunningNode:
    """The node of a state, reconfigured where a configuration is given.

    `root`: where the kernel's interrupts may be read; None for a machine that is made up. Raises
    `SavedStateError` and `ConfigError`.
    """
    interrupts = () if root is None else Knobs(root).hardware().interrupts
    engine = saved_engine(state, machine, interrupts)
    if config is None:
        return RunningNode.of(engine)
    with config.placing():
        return RunningNode.of(engine, config.config)


def node_options(command: FC) -> FC:
    """The command with `--state`, `--running` and `--control`: `state_path`, `is_running`, …."""
    state = click.option(
        "--state",
        "state_path",
        type=PathType(path_type=Path, remedy="name a state file, its folder or a support bundle"),
        metavar="FILE|DIR",
        help="Go on from what runs: a daemon's state file, its folder, or a support bundle.",
    )
    running = click.option(
        "--running", "is_running", is_flag=True, help="Go on from what runs: ask the daemon here."
    )
    return state(running(control_option(command)))

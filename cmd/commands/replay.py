"""`pinfold replay`: decisions of a node made again, elsewhere or under another configuration."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from ...policy.configuration.config_text import CheckedConfig, config_from_values
from ...policy.engine.engine import Engine
from ...policy.pools.layout import MachineLayout
from ...topology.drawing.fingerprint import machine_fingerprint
from ...topology.model.machine import Machine
from ...topology.sets.base_errors import PinfoldError
from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..control.history.history_file import (
    HISTORY_NAME,
    OLDER_NAME,
    parse_history,
    read_history,
)
from ..control.history.replayed_decision import Replayed, ReplayOutcome, replay
from ..control.history.saved_decision import SavedDecision
from ..daemon.config_file import load_config
from ..daemon.machine_source import machine_options
from ..report.console import table_lines
from ..report.escaped_text import escaped
from ..report.path_type import PathType
from ..state.state_file import State
from .bundle.support_bundle import BundleError, is_bundle, read_bundle
from .json_text import json_text
from .options import output_option
from .saved_node import MachineOptions, check_machine, saved_state, state_option

_COLUMNS: Final = ("container", "event", "was", "would be")
_WORSE: Final = 1


@click.command()
@state_option
@click.option(
    "--config",
    "config_path",
    type=PathType(path_type=Path),
    metavar="FILE",
    help="Decide under this configuration; that of the state by default.",
)
@click.option("--all", "shows_all", is_flag=True, help="Show also what would be as it was.")
@output_option("table", "json", meaning="A table for people or one JSON document for tools.")
@machine_options
def command(
    state_path: Path,
    config_path: Path | None,
    output: str,
    sysfs_root: str | None,
    machine: str | None,
    *,
    shows_all: bool,
) -> int:
    """Make the decisions that a node kept again, and say which would be others. Changes nothing.

    On the node's own machine: this one, or that of a support bundle; on another where one is named.

    Exits with 1 if a container would be refused that was not.
    """
    kept = _kept(state_path)
    chosen: CheckedConfig | None = (
        None if config_path is None else load_config(config_path, may_be_pipe=True)
    )
    given, state = MachineOptions(sysfs_root, machine), _state(state_path, chosen)
    made_on = given.for_state(state, state_path).machine()
    if state is not None:
        values = state.config
        chosen = chosen or CheckedConfig(config_from_values(values, "the state's configuration"))
        # Whoever names none means the node's own, wherever its files were taken.
        if not given.is_given:
            check_machine(state, made_on)
    assert chosen is not None
    with chosen.placing():
        layout = MachineLayout.of(made_on, chosen.config, _kept_reserve(state, made_on))
        engine = Engine(made_on, chosen.config, layout=layout)
    found = replay(engine, kept)
    shown = [one for one in found if shows_all or one.outcome is not ReplayOutcome.SAME]
    click.echo(_as_json(found, shown) if output == "json" else _as_text(found, shown))
    return _WORSE if any(one.outcome is ReplayOutcome.REFUSED for one in found) else 0


def _kept(path: Path) -> tuple[SavedDecision, ...]:
    """The decisions in a folder, a file or a support bundle."""
    if not is_bundle(path):
        return read_history(path)
    parts: list[bytes] = []
    for name in (OLDER_NAME, HISTORY_NAME):
        with contextlib.suppress(BundleError):
            parts.append(read_bundle(path, name))
    return parse_history(parts, path)


def _state(path: Path, config: CheckedConfig | None) -> State | None:
    """The state beside the decisions; with a configuration these are enough."""
    try:
        return saved_state(path)
    except PinfoldError:
        if config is None:
            raise
        return None


def _kept_reserve(state: State | None, machine: Machine) -> CpuSet:
    """The cpus that the node reserved, as its number alone may not tell; none on other machines."""
    if state is None or not state.reserved:
        return NO_CPUS
    is_its_own = state.machine.fingerprint == machine_fingerprint(machine)
    return CpuSet.parse(state.reserved) if is_its_own else NO_CPUS


def _as_text(found: Sequence[Replayed], shown: Sequence[Replayed]) -> str:
    counts = Counter(one.outcome for one in found)
    line = ", ".join(f"{outcome.value}: {counts[outcome]}" for outcome in ReplayOutcome)
    rows = [(one.path, one.event, one.before.text, one.after.text) for one in shown]
    table = table_lines(_COLUMNS, rows) if rows else []
    return "\n".join([*table, escaped(line)])


def _as_json(found: Sequence[Replayed], shown: Sequence[Replayed]) -> str:
    counts = Counter(one.outcome for one in found)
    document = {
        "decisions": [
            {
                "at": one.at,
                "container": one.path,
                "event": one.event,
                "outcome": one.outcome.value,
                "before": one.before.document,
                "after": one.after.document,
            }
            for one in shown
        ],
        "counts": {outcome.value: counts[outcome] for outcome in ReplayOutcome},
    }
    return json_text(document)

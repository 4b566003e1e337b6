"""`pinfold config plan`: what would move if a file became the configuration."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from ..policy.configuration.text import config_from_values
from ..policy.decision import Pinning
from ..policy.engine import Engine
from ..policy.move import Fate, Move, find_moves
from ..topology.errors import PinfoldError
from ..topology.fingerprint import machine_fingerprint, machine_summary
from ..topology.machine import Machine
from .configfile import load_config
from .machinesource import machine_of, machine_options
from .statefile import STATE_NAME, State, StateFileError, load_state

DEFAULT_STATE: Final = Path("/var/lib/pinfold")
_SOMETHING_MOVES: Final = 1


class PlanError(PinfoldError):
    """There is no state to plan with, or it is of another machine."""


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """What becomes of every container, and what the author of the file should know."""

    moves: tuple[Move, ...]
    warnings: tuple[str, ...] = ()

    def count(self, fate: Fate) -> int:
        """How many containers have this fate."""
        return sum(move.fate is fate for move in self.moves)


@click.command(name="plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--state",
    "state_path",
    type=click.Path(path_type=Path),
    default=DEFAULT_STATE,
    show_default=True,
    metavar="FILE|DIR",
    help="What runs: the state file of the daemon, or the folder it is in.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A line for each container or one JSON document for tools.",
)
@machine_options
def command(
    file: Path, state_path: Path, output: str, sysfs_root: str | None, machine: str | None
) -> None:
    """Say what would move if FILE, with its drop-ins, became the configuration. Changes nothing.

    Exits with 1 if a container would move or could not have what it asks for any more, with 2 if
    FILE has faults or there is no state to compare with.
    """
    state = _state(state_path)
    found = machine_of(sysfs_root, machine)
    plan = plan_config(state, found, file)
    click.echo(_as_json(plan) if output == "json" else _as_text(plan))
    if plan.count(Fate.STAYS) < len(plan.moves):
        raise click.exceptions.Exit(_SOMETHING_MOVES)


def plan_config(state: State, machine: Machine, file: Path) -> ConfigPlan:
    """What a configuration file would do to everything in a state.

    Raises `ConfigError` for the file, `PlanError` where the state is of another machine.
    """
    if state.machine.fingerprint != machine_fingerprint(machine):
        raise PlanError(
            f"state: of another machine ({state.machine.summary}; this one has"
            f" {machine_summary(machine)}) — name that one with --sysfs-root or --machine"
        )
    loaded = load_config(file)
    present = Engine(machine, config_from_values(state.config, "the state's configuration"))
    present.synchronize(state.running(), state.advice())
    planned, _ = present.reconfigured(loaded.config)
    return ConfigPlan(
        moves=find_moves(present, planned),
        warnings=(*loaded.warnings, *planned.warnings),
    )


def _state(path: Path) -> State:
    file = path / STATE_NAME if path.is_dir() else path
    try:
        return load_state(file)
    except StateFileError as error:
        advice = "the daemon puts it aside and writes a good one when it starts"
        raise PlanError(f"{error} — {advice}") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PlanError(
            f"{file}: {reason} — name the folder that pinfoldd has as its --state-dir"
        ) from error


def _as_text(plan: ConfigPlan) -> str:
    lines = [f"warning: {warning}" for warning in plan.warnings]
    lines.extend(f"{move.container.path}: {_fate(move)}" for move in plan.moves)
    counts = ", ".join(f"{fate.value}: {plan.count(fate)}" for fate in Fate)
    return "\n".join([*lines, counts])


def _fate(move: Move) -> str:
    if move.fate is Fate.STAYS:
        return f"stays on {_place(move.after)}"
    way = f"from {_place(move.before)} to {_place(move.after)} — {move.reason}"
    return f"moves {way}" if move.fate is Fate.MOVES else f"degraded, {way}"


def _place(pinning: Pinning) -> str:
    cpus = "any cpus" if pinning.cpus is None else f"cpus {pinning.cpus}"
    mems = "any memory" if pinning.mems is None else f"memory {pinning.mems}"
    return f"{cpus}, {mems}"


def _as_json(plan: ConfigPlan) -> str:
    document = {
        "containers": [
            {
                "id": move.container.id,
                "container": move.container.name,
                "pod": move.container.pod.name,
                "namespace": move.container.pod.namespace,
                "fate": move.fate.value,
                "before": _document(move.before, move.pool_before),
                "after": _document(move.after, move.pool_after),
                "reason": move.reason or None,
            }
            for move in plan.moves
        ],
        "counts": {fate.value: plan.count(fate) for fate in Fate},
        "warnings": list(plan.warnings),
    }
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)


def _document(pinning: Pinning, pool: str) -> dict[str, str | None]:
    return {
        "cpus": None if pinning.cpus is None else str(pinning.cpus),
        "mems": None if pinning.mems is None else str(pinning.mems),
        "pool": pool,
    }

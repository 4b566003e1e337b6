"""`pinfold rebalance`: the moves that would place running containers better."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import click
import msgspec
from msgspec import Struct

from ...policy.engine.rebalance.plan import (
    RebalanceBudget,
    RebalanceMove,
    RebalancePlan,
    Site,
    rebalance,
)
from ...policy.engine.rebalance.promise import needed_moves
from ...policy.model.move_purpose import MovePurpose
from ...policy.placing.judging.restriction import names_text
from ...topology.drawing.machine_tree import bytes_text
from ..control.control_client import ControlClient, ControlError
from ..control.plan_document import move_documents, plan_document
from ..daemon.machine_source import machine_options
from ..report.console import table_lines
from ..report.escaped_text import escaped
from ..report.path_type import PathType
from ..report.weight_text import weight_text
from .exit_status import INTERRUPTED
from .json_text import json_text
from .options import control_option, output_option
from .saved_node import MachineOptions, cut_pods, saved_engine, saved_state

_STOPPED: Final = 1
_INTERRUPTION: Final = (
    "interrupted while the daemon was asked for it — see with 'pinfold status' where it is"
)
_PURPOSES: Final[Mapping[MovePurpose, str]] = {
    MovePurpose.ASIDE: "goes for the sake of a move after it",
    MovePurpose.ONE_NUMA_NODE: "goes back to one NUMA node",
    MovePurpose.WHOLE_CPUS: "leaves a whole cpu free",
}
_COLUMNS: Final = ("container", "from", "to", "gain", "memory to migrate")


@click.command()
@click.option("--plan", is_flag=True, help="Only say what would be moved; that is the default.")
@click.option("--apply", "is_applied", is_flag=True, help="Have the daemon make the moves, too.")
@click.option(
    "--budget",
    "moves",
    type=click.IntRange(min=0),
    metavar="N",
    help="Plan at most so many moves, those that gain most.",
)
@click.option(
    "--exclusive", is_flag=True, help="Move containers with exclusive cpus, too: they stay else."
)
@click.option(
    "--state",
    "state_path",
    type=PathType(path_type=Path, remedy="name a state file, its folder or a support bundle"),
    metavar="FILE|DIR",
    help="What runs: a state file, its folder or a support bundle; without, the running daemon"
    " says.",
)
@control_option
@output_option("table", "json", meaning="A table for people or one JSON document for tools.")
@machine_options
def command(
    plan: bool,
    is_applied: bool,
    moves: int | None,
    exclusive: bool,
    state_path: Path | None,
    control: Path | None,
    output: str,
    sysfs_root: str | None,
    machine: str | None,
) -> None:
    """Say which moves of running containers would satisfy more of what they wish of each other.

    First come those to where a required rule holds that does not where the container is.

    Every step is legal where it is made: no exclusive cpu is shared, nobody is without cpus, memory
    fits. Nothing is moved without --apply; with it, exits with 1 where a step could not be made.
    """
    if is_applied and (plan or state_path is not None):
        raise click.UsageError("--apply asks the running daemon: leave --plan and --state out")
    client = ControlClient(control) if state_path is None else None
    state = client.state() if client is not None else saved_state(cast(Path, state_path))
    for warning in cut_pods(state):
        click.echo(f"warning: {warning}", err=True)
    meant = MachineOptions(sysfs_root, machine).for_state(state, state_path)
    engine = saved_engine(state, meant.machine())
    budget = RebalanceBudget(moves=moves, moves_exclusive=exclusive)
    found = rebalance(engine.snapshot(), budget)
    done = (
        _applied(client, found, moves_exclusive=exclusive)
        if client is not None and is_applied
        else None
    )
    click.echo(_as_json(found, done) if output == "json" else _as_text(found, done, budget))
    if done is not None and done.stopped:
        raise click.exceptions.Exit(INTERRUPTED if done.is_interrupted else _STOPPED)


class _Applied(Struct, frozen=True):
    """How many moves were made, and what kept the next one from it, if anything."""

    moves: int
    stopped: str = ""
    is_interrupted: bool = False
    """Whether that was whoever asked for them."""


def _applied(
    client: ControlClient, plan: RebalancePlan, *, moves_exclusive: bool = False
) -> _Applied:
    """The moves of a plan, made one by one: a later one may need the room of an earlier one."""
    for count, move in enumerate(plan.moves):
        try:
            made = client.move(
                move.container.id,
                move.before.pool,
                move.after.pool,
                moves_exclusive=moves_exclusive,
                promised=move_documents(needed_moves(plan.moves[count:])),
            )
        except ControlError as error:
            # It ended, or the daemon did. Whoever asked is owed what was done until then.
            return _Applied(count, f"{move.container.path}: {error}")
        except KeyboardInterrupt:
            stopped = f"{move.container.path}: {_INTERRUPTION}"
            return _Applied(count, stopped, is_interrupted=True)
        if not made.moved:
            return _Applied(count, f"{made.container}: {made.reason}")
    return _Applied(len(plan.moves))


def _as_text(plan: RebalancePlan, done: _Applied | None, budget: RebalanceBudget) -> str:
    lines = [_plan_text(plan, budget)]
    if done is not None:
        lines.append(f"made: {_count(done.moves, 'move')} of {len(plan.moves)}")
        if done.stopped:
            remedy = "" if " — " in done.stopped else " — plan anew"
            lines.append(escaped(f"stopped at {done.stopped}{remedy}"))
    return "\n".join(lines)


def _plan_text(plan: RebalancePlan, budget: RebalanceBudget) -> str:
    before = weight_text(plan.score, plan.scale)
    if not plan.moves:
        # Whether some would be is not asked where none may be made.
        reason = "the budget allows no move" if budget.moves == 0 else "no move is worth it"
        return f"satisfied weight: {before}; {reason}"
    after = weight_text(plan.score_after, plan.scale)
    moves, cpusets = _count(len(plan.moves), "move"), _count(plan.changed_cpusets, "cpuset")
    migrated = bytes_text(plan.migrated_bytes) if plan.migrated_bytes else "nothing"
    return "\n".join(
        [
            f"satisfied weight: {before}, {after} after {moves}"
            f" ({migrated} to migrate, {cpusets} to change)",
            *table_lines(_COLUMNS, [_row(move, plan.scale) for move in plan.moves]),
            *(escaped(f"  {text}") for move in plan.moves for text in _reasons(move)),
        ]
    )


def _reasons(move: RebalanceMove) -> Sequence[str]:
    """What a move is for, where that is no gain of its own."""
    path = move.container.path
    if (reason := _PURPOSES.get(move.purpose)) and not move.awaited:
        return (f"{path} {reason}",)
    followers = names_text(move.awaited)
    together = (f"{path} goes together with {followers}",) if followers else ()
    return (*together, *(f"mends {text}" for text in move.mends))


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _row(move: RebalanceMove, scale: int) -> tuple[str, ...]:
    memory = bytes_text(move.migrated_bytes) if move.migrated_bytes else "-"
    gain = weight_text(move.gain, scale, is_signed=True)
    return (move.container.path, _place(move.before), _place(move.after), gain, memory)


def _place(site: Site) -> str:
    return f"{site.pool}, cpus {site.cpus}"


def _as_json(plan: RebalancePlan, done: _Applied | None) -> str:
    made: dict[str, object] = {}
    if done is not None:
        made = {"applied": done.moves, "stopped": done.stopped or None}
    document = {**made, **msgspec.to_builtins(plan_document(plan))}
    return json_text(document)

"""`pinfold config plan`: what would move if a file became the configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from msgspec import Struct, structs

from ...policy.engine.decision import rule_names
from ...policy.engine.engine import Engine
from ...policy.engine.reconfiguration import Fate, Move, find_moves
from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from ...policy.tuning.interrupts import Interrupt
from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, NodeSet
from ..daemon.config_file import load_config
from ..daemon.machine_source import machine_options
from ..kernel.knobs import Knobs
from ..report.path_type import PathType
from ..state.state_file import State
from .bundle.support_bundle import is_bundle
from .json_text import json_text
from .options import output_option
from .saved_node import MachineOptions, cut_pods, saved_engine, saved_state, state_option

_SOMETHING_MOVES: Final = 1


class ConfigPlan(Struct, frozen=True):
    """The fate of every container, and warnings for the author of the file."""

    moves: tuple[Move, ...]
    warnings: tuple[str, ...] = ()

    def count(self, fate: Fate) -> int:
        """The number of containers that have this fate."""
        return sum(move.fate is fate for move in self.moves)


@click.command(name="plan")
@click.argument("file", type=PathType(path_type=Path))
@state_option
@output_option("text", "json", meaning="A line for each container or one JSON document for tools.")
@machine_options
def command(
    file: Path, state_path: Path, output: str, sysfs_root: str | None, machine: str | None
) -> None:
    """Say what would move if FILE, with its drop-ins, became the configuration. Changes nothing.

    Exits with 1 if a container would move or could not have what it asks for any more, with 2 if
    FILE has faults or there is no state to compare with.
    """
    state = saved_state(state_path)
    meant = MachineOptions(sysfs_root, machine).for_state(state, state_path)
    is_elsewhere = meant.spec is not None or is_bundle(state_path)
    interrupts = () if is_elsewhere else _interrupts(Path(sysfs_root or "/"))
    plan = plan_config(state, meant.machine(), file, interrupts)
    click.echo(_as_json(plan) if output == "json" else _as_text(plan))
    if plan.count(Fate.STAYS) < len(plan.moves):
        raise click.exceptions.Exit(_SOMETHING_MOVES)


def plan_config(
    state: State, machine: Machine, file: Path, interrupts: tuple[Interrupt, ...] = ()
) -> ConfigPlan:
    """The plan of a configuration file: the fate of every container in a state.

    `interrupts`: those of the machine; without, nobody is told that some may not be moved.

    Raises `ConfigError` for the file, `SavedStateError` where the state is of another machine.
    """
    loaded = load_config(file, may_be_pipe=True)
    present = saved_engine(state, machine, interrupts)
    with loaded.placing():
        planned, _ = present.reconfigured(loaded.config)
    moves = find_moves(present.snapshot(), planned.snapshot())
    broken = _broken_rules(present, planned)
    return ConfigPlan(
        moves=tuple(_with_broken(one, broken.get(one.container.id, ())) for one in moves),
        warnings=(*loaded.warnings, *map(loaded.placed, planned.warnings), *cut_pods(state)),
    )


def _broken_rules(present: Engine, planned: Engine) -> Mapping[ContainerId, Sequence[str]]:
    """Rules required during execution that stop holding by a plan, by their owners.

    Afterwards the planned engine tells of them.
    """
    found: dict[ContainerId, Sequence[str]] = {}
    # Of a few owners at each look.
    while not (looked := planned.look_at_rules()).keys() <= found.keys():
        found.update(looked)
    for container_id, texts in found.items():
        before = rule_names(present.decisions[container_id].unmet)
        pairs = zip(texts, rule_names(texts), strict=True)
        found[container_id] = [text for text, name in pairs if name not in before]
    return found


def _with_broken(move: Move, texts: Sequence[str]) -> Move:
    """The move of a container with the rules that stop holding there, and what follows."""
    if not texts:
        return move
    rules = f"does not hold any more: {'; '.join(texts)}; moved later, where there is room"
    reason = f"{move.reason}; {rules}" if move.reason else rules
    return structs.replace(move, fate=Fate.DEGRADED, reason=reason)


def _interrupts(root: Path) -> tuple[Interrupt, ...]:
    """Interrupts of a kernel whose sys/ and proc/ are below `root`; none of an archive."""
    return Knobs(root).hardware().interrupts


def _as_text(plan: ConfigPlan) -> str:
    lines = [f"warning: {warning}" for warning in plan.warnings]
    lines.extend(f"{move.container.path}: {_fate(move)}" for move in plan.moves)
    counts = ", ".join(f"{fate.value}: {plan.count(fate)}" for fate in Fate)
    return "\n".join([*lines, counts])


def _fate(move: Move) -> str:
    before, after = _place(move.before, Pinning()), _place(move.after, move.before)
    match move.fate:
        case Fate.STAYS:
            return f"stays on {after}"
        case Fate.MOVES:
            return f"moves from {before} to {after} — {move.reason}"
        case Fate.DEGRADED:
            way = f"from {before} to {after}" if move.is_elsewhere else f"stays on {after}"
            return f"degraded, {way} — {move.reason}"


def _place(now: Pinning, before: Pinning) -> str:
    """What a container runs on; the kernel keeps `before` of what it is not told any more."""
    cpus = _ids("cpus", now.cpus, before.cpus)
    return f"{cpus}, {_ids('memory', now.mems, before.mems)}"


def _ids(what: str, now: CpuSet | NodeSet | None, before: CpuSet | NodeSet | None) -> str:
    if now is not None:
        return f"{what} {now}"
    return f"any {what}" if before is None else f"{what} {before} (not pinned)"


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
    return json_text(document)


def _document(pinning: Pinning, pool: str) -> dict[str, str | None]:
    return {
        "cpus": None if pinning.cpus is None else str(pinning.cpus),
        "mems": None if pinning.mems is None else str(pinning.mems),
        "pool": pool,
    }

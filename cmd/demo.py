"""`pinfold demo`: the daemon's real code, an embedded runtime and example pods."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from ..nri.embedded import EmbeddedRuntime
from ..nri.embedded_cri import embedded_link
from ..policy.configuration.config import Config
from ..policy.container import Container
from ..policy.decision import Decision, Refusal
from ..policy.drawpools import draw_pools
from ..policy.scenarios.manifest import PodSpec, parse_manifests
from ..topology.errors import PinfoldError
from ..topology.machine import Machine
from ..topology.spec import machine_from_spec
from .configfile import read_file
from .daemon import Daemon, memory_bytes
from .demopods import DEMO_PODS
from .machinesource import machine_of, machine_options
from .paperpods import start_pods
from .pools import chosen_config
from .reason import reason_of

TWO_SOCKETS: Final = "socket:2 numa:2 core:2 thread:2 mem:2G"

_SECONDS: Final = 10.0


@click.command()
@machine_options
@click.option("--config", "config_path", metavar="FILE", help="Configuration; built-in defaults.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def command(
    sysfs_root: str | None, machine: str | None, config_path: str | None, files: tuple[Path, ...]
) -> None:
    """Run the daemon with an embedded runtime and the pods of FILES (two examples without any).

    Shown on this machine and on one with two sockets, or on the one machine that options name.
    """
    config, warnings = chosen_config(config_path)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    texts = [(str(path), read_file(path)) for path in files] or list(DEMO_PODS)
    pods = [pod for source, text in texts for pod in parse_manifests(text, source)]
    chosen = machine_of(sysfs_root, machine)
    stages = [("this machine", chosen)]
    if sysfs_root is not None or machine is not None:
        stages = [(machine or sysfs_root or "", chosen)]
    else:
        stages.append((TWO_SOCKETS, machine_from_spec(TWO_SOCKETS)))
    for number, (title, one) in enumerate(stages):
        if number:
            click.echo()
        click.echo(f"On {title}:")
        click.echo(play(one, config, pods))


def play(machine: Machine, config: Config, pods: Sequence[PodSpec]) -> str:
    """Start pods one after another on a machine; the pools with every container in its place."""
    runtime = EmbeddedRuntime()
    daemon = Daemon(machine, config, embedded_link(runtime))
    daemon.start()
    try:
        if not runtime.wait_until_synchronized(_SECONDS):
            raise PinfoldError("demo: the daemon did not connect to the embedded runtime")
        refused = start_pods(runtime, [*pods], memory_bytes(machine))
        daemon.plugin.settle(_SECONDS)
        text = daemon.plugin.owner.ask("draw", lambda: _draw(daemon, runtime), _SECONDS)
        lines = [f"[{one.pod.name}/{one.container}] refused: {one.reason}" for one in refused]
        return "\n".join([text, *lines])
    finally:
        daemon.stop()


def _draw(daemon: Daemon, runtime: EmbeddedRuntime) -> str:
    engine = daemon.engine
    inside: dict[str, list[str]] = {}
    told: set[str] = set()
    paths = {container.path for container in engine.containers.values()}
    for container_id, container in engine.containers.items():
        decision = engine.decisions.get(container_id)
        if decision is None or isinstance(decision.result, Refusal):
            continue
        if container_id not in engine.grants:
            continue
        pool = engine.tree.pools[engine.grants[container_id].pool_id]
        kernel = runtime.kernel[container_id]
        lines = inside.setdefault(pool.name, [])
        reason = reason_of(decision, engine.tree)
        lines.append(_line(container, decision, kernel.cpus, kernel.mems, reason))
        lines.extend(_problems(container, decision, told, paths))
    return draw_pools(engine.tree, engine.machine, inside)


def _problems(
    container: Container, decision: Decision, told: set[str], paths: set[str]
) -> Iterator[str]:
    """A fault in a pod's annotation once: it is known to every container of the pod."""
    for problem in decision.problems:
        _, _, owner = problem.where.rpartition(" of ")
        text = f"problem: {problem}"
        if text not in told and (owner == container.path or owner not in paths):
            told.add(text)
            yield text


def _line(container: Container, decision: Decision, cpus: str, mems: str, reason: str) -> str:
    name = f"{container.pod.name}/{container.name}"
    return f"[{name}] cpus {cpus or 'any'}; memory {mems or 'any'}; {reason}"

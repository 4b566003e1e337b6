"""`pinfold demo`: the daemon's real code, an embedded runtime and example pods."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from ...nri.embedded.embedded_runtime import EmbeddedRuntime
from ...nri.embedded.embedded_updates import embedded_link
from ...nri.embedded.kubelet import RefusedCreation, start_pods
from ...policy.configuration.config import Config
from ...policy.engine.decision import Decision
from ...policy.engine.pool_drawing import pool_texts, spare_supplies
from ...policy.engine.reason import reason_of
from ...policy.manifests.manifest import parse_manifests
from ...policy.manifests.pod_spec import PodSpec
from ...policy.model.container import Container
from ...policy.model.grant import Grant
from ...policy.model.memory_qos import MemoryQos
from ...topology.drawing.text_tree import TextTree
from ...topology.made.spec import machine_from_spec
from ...topology.model.machine import Machine
from ...topology.sets.base_errors import PinfoldError
from ...topology.sets.cpuset import CpuSet
from ..daemon.config_file import read_file
from ..daemon.daemon import Daemon, memory_bytes
from ..daemon.machine_source import machine_of, machine_options
from ..report.console import tree_lines
from ..report.escaped_text import escaped
from ..report.path_type import PathType
from .container_lines import cpus_text, natural_key, place_text, short_names
from .demo_pods import DEMO_PODS
from .options import config_option
from .pools import chosen_config
from .simulation.hardware_options import memory_qos_option

TWO_SOCKETS: Final = "socket:2 numa:2 core:2 thread:2 mem:2G"

_SECONDS: Final = 10.0


@click.command()
@machine_options
@config_option
@click.option(
    "--runtime",
    "front",
    type=click.Choice(["nri", "cri"]),
    default="nri",
    show_default=True,
    help="How the daemon stands to the embedded runtime: as a plugin, or as a proxy before it.",
)
@memory_qos_option
@click.argument("files", nargs=-1, type=PathType(path_type=Path))
def command(
    sysfs_root: str | None,
    machine: str | None,
    config_path: str | None,
    front: str,
    memory_qos: MemoryQos,
    files: tuple[Path, ...],
) -> None:
    """Run the daemon with an embedded runtime and the pods of FILES (two examples without any).

    Shown on this machine and on one with two sockets, or on the one machine that options name.
    """
    loaded = chosen_config(config_path)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    texts = [(str(path), read_file(path, may_be_pipe=True)) for path in files] or list(DEMO_PODS)
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
        played = play_behind_proxy if front == "cri" else play
        with loaded.placing():
            drawing = played(one, loaded.config, pods, memory_qos)
        click.echo(drawing)


def play(
    machine: Machine,
    config: Config,
    pods: Sequence[PodSpec],
    memory_qos: MemoryQos = MemoryQos.OFF,
) -> str:
    """Start pods one after another on a machine; the pools with every container in its place."""
    runtime = EmbeddedRuntime()
    daemon = Daemon(machine, config, embedded_link(runtime))
    daemon.start()
    try:
        if not runtime.wait_until_synchronized(_SECONDS):
            raise PinfoldError("demo: the daemon did not connect to the embedded runtime")
        refused = start_pods(runtime, pods, memory_bytes(machine), memory_qos)
        return _drawn(daemon, runtime, refused)
    finally:
        daemon.stop()


def play_behind_proxy(
    machine: Machine,
    config: Config,
    pods: Sequence[PodSpec],
    memory_qos: MemoryQos = MemoryQos.OFF,
) -> str:
    """As `play`, with the daemon as a CRI proxy between a kubelet and the runtime."""
    # Imported here, as gRPC takes as long to load as everything else.
    from ...nri.embedded.cri_loopback import CriLoopback

    runtime = EmbeddedRuntime()
    with tempfile.TemporaryDirectory(prefix="pinfold-") as folder:
        loopback = CriLoopback(runtime, Path(folder), memory_bytes(machine), memory_qos)
        daemon = Daemon(machine, config, loopback.link())
        daemon.start()
        try:
            if not daemon.front.wait_until_ready(_SECONDS):
                raise PinfoldError("demo: the daemon did not connect to the embedded runtime")
            return _drawn(daemon, runtime, loopback.kubelet.start_pods(pods))
        finally:
            daemon.stop()
            loopback.close()


def _drawn(daemon: Daemon, runtime: EmbeddedRuntime, refused: Sequence[RefusedCreation]) -> str:
    daemon.front.settle(_SECONDS)
    texts = daemon.front.owner.ask("draw", lambda: _texts(daemon, runtime), _SECONDS)
    lines = [f"[{one.pod.name}/{one.container}] refused: {one.reason}" for one in refused]
    return "\n".join([*tree_lines(texts), *map(escaped, lines)])


def _texts(daemon: Daemon, runtime: EmbeddedRuntime) -> TextTree:
    snapshot = daemon.engine.snapshot()
    inside: dict[str, list[str]] = {}
    told: set[str] = set()
    every = list(snapshot.containers.values())
    paths = {container.path for container in every}
    names = short_names([(one.pod.namespace, one.pod.name, one.name) for one in every])
    named = sorted(zip(names, every, strict=True), key=lambda pair: natural_key(pair[0]))
    for name, container in named:
        decision, grant = snapshot.decisions.get(container.id), snapshot.grants.get(container.id)
        if decision is None or grant is None:
            continue
        lines = inside.setdefault(snapshot.tree.pools[grant.pool_id].name, [])
        kernel = runtime.kernel[container.shown_id]
        cpus = _cpus(grant, kernel.cpus)
        lines.append(place_text(name, cpus, kernel.mems, reason_of(decision)))
        lines.extend(_problems(container, decision, told, paths))
    return pool_texts(snapshot.tree, snapshot.machine, inside, spare_supplies(snapshot))


def _cpus(grant: Grant, kernel: str) -> str:
    """What the kernel was told, with its kind."""
    if not kernel:
        return ""
    shared = str(CpuSet.parse(kernel) - grant.exclusive)
    return cpus_text(grant.kind, kernel, str(grant.exclusive), shared)


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

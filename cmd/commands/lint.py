"""`pinfold lint`: what is wrong with annotations in manifests and with configurations."""

from collections.abc import Iterator
from pathlib import Path

import click

from ...policy.configuration.config import Config
from ...policy.configuration.config_text import read_config
from ...policy.engine.engine import Engine
from ...policy.manifests.annotation_lint import has_pods, is_configuration, lint_manifests
from ...policy.manifests.manifest import parse_manifests
from ...policy.rules.podaffinity.configured_rules import (
    configured_rules,
    expansion,
    pod_expansion,
)
from ...policy.scenarios.creation import created_pod
from ...policy.scenarios.pod_check import PodCheck
from ...policy.text.errors import ConfigError
from ...policy.text.yaml_fields import FieldError
from ...topology.model.machine import Machine
from ..daemon.config_file import ConfigFileError, input_name, load_config, read_input
from ..daemon.machine_source import machine_of, machine_options

_ERROR = 1
_UNREADABLE = 2


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@machine_options
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(),
    help="The node's configuration; without it, classes that pods name are taken to exist.",
)
@click.option(
    "--expand",
    "is_expanded",
    is_flag=True,
    help="Also show the rules that profiles, racks and resource sets come to.",
)
def command(
    files: tuple[str, ...],
    sysfs_root: str | None,
    machine: str | None,
    config_path: str | None,
    *,
    is_expanded: bool,
) -> int:
    """Check the annotations of pods in manifests, and configurations; "-" is standard input.

    What passes is not refused for its annotations on a node with this configuration. Where a
    machine is given, each pod is also placed on it, alone.

    Exit status: 1 if something is wrong, such as a text that is no YAML (advice does not count);
    2 if a file cannot be read, or is no text; the others are checked then too.
    """
    config = None if config_path is None else load_config(Path(config_path)).config
    has_machine = sysfs_root is not None or machine is not None
    on = machine_of(sysfs_root, machine) if has_machine else None
    check = PodCheck(config, on)
    status = 0
    for file in files:
        name = input_name(file)
        try:
            text = read_input(file)
        except ConfigFileError as error:
            click.echo(str(error), err=True)
            status = _UNREADABLE
            continue
        complaints = list(_complaints(name, text, check, on))
        if not complaints and not is_configuration(text) and not has_pods(text):
            click.echo(
                f"{name}: nothing to check — it holds no pods and no configuration", err=True
            )
        for line, is_advice in complaints:
            click.echo(line)
            status = status if is_advice else max(status, _ERROR)
        if is_expanded:
            click.echo(_expansion(name, text, config or Config()), nl=False)
    return status


def _expansion(source: str, text: str, config: Config) -> str:
    """The rules that a configuration adds: that in the text, or the node's to the text's pods."""
    try:
        if is_configuration(text):
            return expansion(configured_rules(read_config(text, source).config))
        pods = parse_manifests(text, source)
    except (ConfigError, FieldError):
        # What is wrong has been said.
        return ""
    configured = configured_rules(config)
    return "".join(pod_expansion(configured, created_pod(spec, 0)) for spec in pods)


def _complaints(
    source: str, text: str, check: PodCheck, machine: Machine | None
) -> Iterator[tuple[str, bool]]:
    """Lines about a text, and whether they are only advice."""
    if not is_configuration(text):
        for finding in lint_manifests(text, check):
            yield finding.text(source), finding.problem.is_advice
        return
    try:
        loaded = read_config(text, source)
    except ConfigError as error:
        yield from ((line, False) for line in str(error).splitlines())
        return
    yield from ((f"advice: {warning}", True) for warning in loaded.warnings)
    if machine is None:
        return
    try:
        warnings = Engine(machine, loaded.config).warnings
    except ConfigError as error:
        yield f"{source}: {error}", False
        return
    yield from ((f"{source}: advice: {warning}", True) for warning in warnings)

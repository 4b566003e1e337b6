"""`pinfold lint`: what is wrong with annotations in manifests and with configurations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click
import yaml

from ...policy.configuration.config import Config
from ...policy.configuration.config_text import read_config
from ...policy.manifests.manifest import parse_manifests
from ...policy.manifests.manifest_text import is_configuration
from ...policy.manifests.pod_spec import PodSpec
from ...policy.rules.central_rules import CentralRules
from ...policy.rules.podaffinity.configured_rules import (
    configured_rules,
    expansion,
    pod_expansion,
)
from ...policy.scenarios.creation import created_container, created_pod
from ...policy.text.errors import ConfigError
from ...policy.text.yaml_fields import FieldError
from ..daemon.config_file import ConfigFileError, input_name, read_input
from ..daemon.machine_source import machine_of, machine_options
from ..report.path_type import PathType
from ..report.version import VERSION
from .check.complaint import Complaint, Severity, Subject, complaints_json, github_text, sarif_text
from .check.file_check import FileCheck, has_something
from .options import output_option
from .pools import chosen_config

_STATUS: Final = {Severity.UNREADABLE: 2, Severity.ERROR: 1, Severity.ADVICE: 0}


def _nothing(_: Sequence[Complaint]) -> str:
    """Lines for people are printed file by file."""
    return ""


def _sarif(complaints: Sequence[Complaint]) -> str:
    return sarif_text(complaints, VERSION)


_FORMATS: Final[Mapping[str, Callable[[Sequence[Complaint]], str]]] = {
    "text": _nothing,
    "json": complaints_json,
    "github": github_text,
    "sarif": _sarif,
}


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PathType())
@machine_options
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=PathType(),
    help="The node's configuration; without it, classes that pods name are taken to exist.",
)
@click.option(
    "--expand",
    "is_expanded",
    is_flag=True,
    help="Also show what rules, profiles, racks and resource sets come to.",
)
@output_option(
    *_FORMATS, meaning="Lines for people, JSON, or what GitHub and tools for SARIF show."
)
def command(
    files: tuple[str, ...],
    sysfs_root: str | None,
    machine: str | None,
    config_path: str | None,
    output: str,
    *,
    is_expanded: bool,
) -> int:
    """Check annotations of pods in manifests, configurations and scenarios; "-" is standard input.

    What passes is not refused for its annotations on a node with this configuration. Where a
    machine is given, each pod is also placed on it, alone. Rules of pods for one another are looked
    at in all files together.

    Exit status: 1 if something is wrong, such as a text that is no YAML (advice does not count);
    2 if a file cannot be read, or is no text; the others are checked then too.
    """
    if is_expanded and output != "text":
        raise click.UsageError("--expand is for people: leave it or -o out")
    chosen = chosen_config(config_path)
    has_machine = sysfs_root is not None or machine is not None
    config = None if config_path is None else chosen.config
    with chosen.placing():
        check = FileCheck(config, machine_of(sysfs_root, machine) if has_machine else None)
    found: list[Complaint] = []
    for file in files:
        name = input_name(file)
        try:
            text = read_input(file)
        except ConfigFileError as error:
            found.append(Complaint.of_line(str(error), name, Subject.FILE, Severity.UNREADABLE))
            click.echo(str(error), err=True)
            continue
        complaints = list(check.complaints(name, text))
        if not complaints and not has_something(text):
            click.echo(
                f"{name}: nothing to check — it holds no pods and no configuration", err=True
            )
        found.extend(complaints)
        if output == "text":
            for one in complaints:
                click.echo(one.placed_text)
        if is_expanded:
            click.echo(_expansion(name, text, chosen.config), nl=False)
    between = [*check.between_files(), *check.between_pods()]
    found.extend(between)
    if output == "text":
        for one in between:
            click.echo(one.placed_text)
    if (shown := _FORMATS[output](found)) or output == "json":
        click.echo(shown)
    return max((_STATUS[one.severity] for one in found), default=0)


def _expansion(source: str, text: str, config: Config) -> str:
    """The rules that a configuration adds: that in the text, or the node's to the text's pods."""
    try:
        if is_configuration(text):
            return expansion(configured_rules(read_config(text, source).config))
        pods = parse_manifests(text, source)
    except (ConfigError, FieldError):
        # What is wrong has been said.
        return ""
    configured, central = configured_rules(config), CentralRules(config)
    return "".join(
        _given_text(central, spec) + pod_expansion(configured, created_pod(spec, 0))
        for spec in pods
    )


def _given_text(central: CentralRules, spec: PodSpec) -> str:
    """The annotations that central rules give the containers of a pod: a document for each."""
    pod = created_pod(spec, 0)
    texts: list[str] = []
    for one in spec.all_containers:
        container = central.completed(created_container(one, pod, 0)[0])
        for rule in dict.fromkeys(given.rule for given in container.given):
            given = {each.key: each.value for each in container.given if each.rule == rule}
            text: str = yaml.safe_dump({"annotations": given}, sort_keys=False, width=100)
            texts.append(f"---\n# rule {rule}, for {container.path}\n{text}")
    return "".join(texts)

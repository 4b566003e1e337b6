"""`pinfold config`: check configuration files, plan a change, show what is in effect."""

import os
from pathlib import Path

import click
import msgspec

from ...policy.configuration.config_text import format_config, read_config
from ...policy.configuration.schema import config_schema
from ...policy.engine.engine import Engine
from ...policy.rules.central_rules import CentralRules
from ...policy.text.errors import ConfigError
from ..daemon.config_file import ConfigFileError, LoadedConfig, load_config, read_file
from ..daemon.machine_source import machine_of, machine_options
from ..report.path_type import PathType
from .config_plan import command as plan
from .json_text import json_text
from .options import output_option


@click.group(name="config")
def command() -> None:
    """Check configuration files; plan a change; show the configuration in effect."""


@command.command()
@click.argument("files", nargs=-1, type=PathType(path_type=Path))
@machine_options
def check(files: tuple[Path, ...], sysfs_root: str | None, machine: str | None) -> None:
    """Check FILES, each alone; without any, what the daemon would read.

    With a machine, also tell what of them that machine cannot have.

    Exits with 1 if a file has faults, 2 if one cannot be read.
    """
    worst = 0
    has_machine = sysfs_root is not None or machine is not None
    hardware = machine_of(sysfs_root, machine) if has_machine else None
    for file in files or (None,):
        try:
            loaded = (
                load_config(environment=os.environ)
                if file is None
                else read_config(read_file(file, may_be_pipe=True, may_be_null=True), str(file))
            )
            with loaded.placing():
                # With annotations in rules that cannot be read a daemon does not start either.
                CentralRules(loaded.config)
                absent = () if hardware is None else Engine(hardware, loaded.config).warnings
        except ConfigError as error:
            click.echo(str(error), err=True)
            worst = max(worst, 2 if isinstance(error, ConfigFileError) else 1)
            continue
        for warning in (*loaded.warnings, *map(loaded.placed, absent)):
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"{file or 'configuration in effect'}: good")
    if worst:
        raise click.exceptions.Exit(worst)


@command.command()
@click.option(
    "--config",
    "path",
    type=PathType(path_type=Path),
    help="Read this file and its drop-ins.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Set one field, last of all."
)
@output_option("yaml", "json", meaning="YAML as in a file, or one JSON document for tools.")
def effective(path: Path | None, settings: tuple[str, ...], output: str) -> None:
    """Print the configuration the daemon would run with, all defaults filled in."""
    loaded = load_config(path, environment=os.environ, settings=settings, may_be_pipe=True)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(_as_json(loaded) if output == "json" else _as_yaml(loaded), nl=False)


command.add_command(plan)


@command.command()
def schema() -> None:
    """Print the JSON schema of configuration files, for editors and for tools."""
    click.echo(json_text(config_schema()))


def _as_yaml(loaded: LoadedConfig) -> str:
    sources = "".join(f"# {source}\n" for source in loaded.sources) or "# built-in defaults\n"
    return sources + format_config(loaded.config)


def _as_json(loaded: LoadedConfig) -> str:
    encoded = msgspec.json.encode(loaded.config, order="sorted")
    return msgspec.json.format(encoded, indent=2).decode() + "\n"

"""`pinfold pools`: the pool tree of a machine under a configuration, before anything runs."""

import json
from pathlib import Path

import click

from ...policy.configuration.config import Config
from ...policy.engine.engine import Engine
from ...policy.engine.pool_drawing import pool_texts, pools_document, withheld_line
from ..daemon.config_file import LoadedConfig, load_config
from ..daemon.machine_source import machine_of, machine_options
from ..report.console import tree_lines
from .options import config_option, output_option


@click.command()
@machine_options
@config_option
@output_option("tree", "json", meaning="A tree for people or one JSON document for tools.")
def command(
    sysfs_root: str | None, machine: str | None, config_path: str | None, output: str
) -> None:
    """Show the pool tree: which cpus and memory each pool could give."""
    chosen, found = chosen_config(config_path), machine_of(sysfs_root, machine)
    with chosen.placing():
        engine = Engine(found, chosen.config)
    warnings = (*chosen.warnings, *map(chosen.placed, engine.warnings))
    snapshot = engine.snapshot()
    if output == "json":
        document = pools_document(snapshot, warnings)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    click.echo("\n".join(tree_lines(pool_texts(snapshot.tree, snapshot.machine))))
    if snapshot.withheld is not None:
        click.echo(withheld_line(snapshot.withheld))
    for warning in warnings:
        click.echo(f"warning: {warning}")


def chosen_config(path: str | None) -> LoadedConfig:
    """The configuration of a file or pipe with its drop-ins, or the built-in one.

    This node's own configuration in /etc is not looked at: the same command gives the same answer
    everywhere. Raises `ConfigError`.
    """
    if path is None:
        return LoadedConfig(config=Config())
    return load_config(Path(path), may_be_pipe=True)

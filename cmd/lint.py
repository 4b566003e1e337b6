"""`pinfold lint`: what is wrong with annotations in manifests and with configurations."""

from pathlib import Path

import click

from ..policy.configuration.text import read_config
from ..policy.errors import ConfigError
from ..policy.language.lint import is_configuration, lint_manifests
from .configfile import ConfigFileError, read_file


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(files: tuple[Path, ...]) -> int:
    """Check the annotations of pods in manifest FILES, and configuration FILES.

    Exits with 1 if something is wrong, 2 if a file cannot be read; the others are checked then too.
    """
    status = 0
    for file in files:
        try:
            text = read_file(file)
        except ConfigFileError as error:
            click.echo(str(error), err=True)
            status = 2
            continue
        for complaint in _complaints(str(file), text):
            click.echo(complaint)
            status = max(status, 1)
    return status


def _complaints(source: str, text: str) -> list[str]:
    if not is_configuration(text):
        return [finding.text(source) for finding in lint_manifests(text)]
    try:
        read_config(text, source)
    except ConfigError as error:
        return str(error).splitlines()
    return []

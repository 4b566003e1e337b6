"""`pinfold describe`: the explanations of all containers of a pod."""

from pathlib import Path

import click

from ....topology.sets.base_errors import PinfoldError
from ...control.control_client import ControlClient
from ..container_lines import natural_key
from ..options import control_option
from .explain import explanation_lines
from .name_completion import complete_pod


@click.command()
@click.argument("pod", shell_complete=complete_pod)
@control_option
def command(pod: str, control: Path | None) -> None:
    """Say of every container of POD (or NAMESPACE/POD) why it is where it is."""
    client = ControlClient(control)
    found = [
        one
        for one in client.containers(pod).containers
        if pod in (one.container.rpartition("/")[0], one.container.split("/")[1])
    ]
    if not found:
        fix = "see 'pinfold status', or ask 'pinfold explain' where it was refused"
        raise PinfoldError(f"pod: {pod!r} has no container here — {fix}")
    found.sort(key=lambda one: natural_key(one.container))
    blocks = ["\n".join(explanation_lines(client.explain(one.id))) for one in found]
    click.echo("\n\n".join(blocks))

"""Names of containers and pods for the shell's completion, from the running daemon.

Somebody waits at a prompt: a daemon that is away, or takes long, completes nothing, silently.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from ....topology.sets.base_errors import PinfoldError
from ...control.control_client import ControlClient

_SECONDS: Final = 0.5


def complete_container(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Containers whose path, or a part of it that names them, begins so."""
    del parameter
    return _beginning(incomplete, _forms(_paths(context)))


def complete_pod(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods whose namespace and name, or name alone, begin so."""
    del parameter
    return _beginning(incomplete, _forms(path.rpartition("/")[0] for path in _paths(context)))


def _paths(context: click.Context) -> tuple[str, ...]:
    """The paths of all containers of the daemon that the command would ask."""
    control, bundle = context.params.get("control"), context.params.get("bundle")
    if bundle is not None:
        return ()
    path = control if isinstance(control, Path) else None
    try:
        found = ControlClient(path, seconds=_SECONDS).containers()
    except (PinfoldError, OSError):
        return ()
    return tuple(one.container for one in found.containers)


def _forms(paths: Iterable[str]) -> Iterator[str]:
    """The paths, then what is left of them without the first part, and so on."""
    left = tuple(dict.fromkeys(paths))
    while left:
        yield from left
        left = tuple(path.partition("/")[2] for path in left if "/" in path)


def _beginning(incomplete: str, forms: Iterable[str]) -> list[str]:
    """The forms that begin so, each once; of empty words the whole paths alone.

    Names that a shell would take apart, or could not show, are left out: strangers choose them.
    """
    found = dict.fromkeys(one for one in forms if one.startswith(incomplete))
    plain = [one for one in found if one.isprintable() and not set(one) & set(" ,;&|<>()$`\\\"'*?")]
    if incomplete:
        return sorted(plain)
    most = max((one.count("/") for one in plain), default=0)
    return sorted(one for one in plain if one.count("/") == most)

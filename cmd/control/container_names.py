"""Names of containers as people type them, and the containers they mean."""

from collections.abc import Callable, Iterable
from typing import Final

from ...policy.model.container import Container
from ...topology.sets.base_errors import PinfoldError

_SHOWN_MAX: Final = 20
_ID_SHOWN: Final = 12

_TESTS: Final[tuple[Callable[[Container, str], bool], ...]] = (
    lambda one, name: name in (one.path, one.id, one.runtime_id),
    lambda one, name: name == f"{one.pod.name}/{one.name}",
    lambda one, name: name == one.name,
    lambda one, name: name in (one.pod.name, f"{one.pod.namespace}/{one.pod.name}"),
    lambda one, name: one.shown_id.startswith(name),
)
"""The first of these that some container passes says which are meant."""


class ControlRequestError(PinfoldError):
    """A question that cannot be answered as it was asked."""


class NotHereError(ControlRequestError):
    """No container is called so."""


def find_container(name: str, containers: Iterable[Container]) -> Container:
    """The one container that a name means.

    `namespace/pod/container`, parts of that, a pod's name or the beginning of an id. Raises
    `ControlRequestError`, which lists the candidates where there are several.
    """
    known = list(containers)
    for test in _TESTS:
        found = [one for one in known if name and test(one, name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ControlRequestError(_several(name, found))
    raise NotHereError(f"container: {name!r} is not here — see 'pinfold status'")


def is_called(container: Container, name: str) -> bool:
    """Whether a name is that of a container, of its pod, or of nothing at all."""
    pod = container.pod
    return name in (
        *("", container.path, f"{pod.name}/{container.name}", container.name),
        *(pod.name, f"{pod.namespace}/{pod.name}"),
    )


def _several(name: str, found: list[Container]) -> str:
    shown = sorted(f"{one.path} ({one.shown_id[:_ID_SHOWN]})" for one in found)[:_SHOWN_MAX]
    more = ", …" if len(found) > _SHOWN_MAX else ""
    return f"container: {name!r} is one of several — name one: {', '.join(shown)}{more}"

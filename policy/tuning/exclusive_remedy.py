"""The way to exclusive cpus for a container that has none, for what only these can have."""

from ..annotations.preferences import Preferences
from ..model.container import Container


def exclusive_remedy(container: Container, preferences: Preferences) -> str:
    """The remedy for a Guaranteed container without exclusive cpus: its annotation, or its request.

    >>> from ..model.container import ContainerId, Pod, PodId
    >>> pod = Pod(id=PodId("p"), name="p")
    >>> exclusive_remedy(Container(id=ContainerId("c"), name="c", pod=pod), Preferences())
    'ask for whole cpus'
    """
    shared = preferences.prefer_shared
    if container.resources.cpu_request_milli >= 1000 and shared is not None and shared.value:
        return f"leave out {shared.key}, which makes it share its cpus"
    return "ask for whole cpus"

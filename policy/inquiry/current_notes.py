"""Current notes about a container: preferred rules that are not met where everybody is by now."""

from ..engine.engine import Engine
from ..engine.replacing.replacement import is_about_a_move
from ..engine.snapshot import Snapshot
from ..model.container import ContainerId
from .alternatives import CONTAINERS_MAX


def current_notes(
    snapshot: Snapshot, container_id: ContainerId, told: tuple[str, ...]
) -> tuple[str, ...]:
    """The notes about a container as of a snapshot; why it was moved is `told` as before.

    What was told stays on nodes with more containers than `CONTAINERS_MAX`, and of who holds
    nothing. O(containers).
    """
    known = snapshot.classified.get(container_id)
    if container_id not in snapshot.grants or known is None:
        return told
    # Others' rules may be about it, whoever came first.
    has_some = told or any(one.placement or one.rules for one in snapshot.classified.values())
    if not has_some or len(snapshot.grants) > CONTAINERS_MAX:
        return told
    # Which weights drew it is forgotten after a while, and by a restart.
    found = Engine.of(snapshot).note(container_id, is_anew=True)
    return (*filter(is_about_a_move, told), *found)

"""Restoration: the books and the roster that a snapshot shows, to try something out on a copy."""

from ..books.books import Books
from .roster import Roster
from .snapshot import Snapshot


def restore(snapshot: Snapshot, books: Books, roster: Roster) -> None:
    """Hold in empty books exactly what a snapshot of this machine and configuration shows.

    Nobody is adopted, and nothing is told. O(containers).
    """
    for container_id, container in snapshot.containers.items():
        classified = snapshot.classified.get(container_id)
        if classified is None:
            roster.leave_out(container, snapshot.decisions[container_id])
            continue
        roster.add(container, classified)
        if container_id in snapshot.decisions:
            roster.decisions[container_id] = snapshot.decisions[container_id]
    for container_id, grant in snapshot.grants.items():
        books.ledger.add(grant)
        books.pinner.note(container_id, snapshot.pinnings[container_id])
        classified = roster.classified[container_id]
        container = snapshot.containers[container_id]
        books.let_count(container, classified.rules, classified.placement)
    books.memory.restore(snapshot.memory)
    books.inherit(snapshot.memory_look, snapshot.due_dram)
    books.pinner.drain()

"""Snapshots of books and a roster, and their restoration, to try something out on a copy."""

from collections.abc import Mapping

from msgspec.structs import replace

from ...books.books import WITHHELD, Books
from ...model.container import ContainerId
from ...model.pinning import Change, Pinning
from ..roster import Roster
from ..snapshot import Snapshot


def snapshot_of(books: Books, roster: Roster) -> Snapshot:
    """The snapshot of all that is held at this moment. O(grants)."""
    ledger = books.ledger
    return Snapshot(
        machine=books.machine,
        config=books.config,
        layout=books.layout,
        containers=dict(roster.containers),
        grants=dict(ledger.grants),
        pens=dict(ledger.pens),
        left=dict(ledger.left),
        stuck=ledger.narrowed.stuck,
        pod_sizes=dict(roster.pod_sizes),
        decisions=dict(roster.decisions),
        pinnings=dict(books.pinner.last_told),
        classified=dict(roster.classified),
        room=ledger.room,
        free_sharable=tuple(ledger.free_sharable),
        free_isolated=tuple(ledger.free_isolated),
        pool_cpus=books.pinner.pool_cpus,
        memory=books.memory.snapshot(),
        withheld=books.memory.request_of(WITHHELD),
        memory_look=books.memory.last_look(),
        due_dram=books.due_dram,
        unread=roster.unread,
    )


def restore(snapshot: Snapshot, books: Books, roster: Roster) -> tuple[Change, ...]:
    """Hold in empty books exactly what a snapshot of this machine and configuration shows.

    Nobody is adopted, and who is in the way of rules that are told as unmet is not in a snapshot.
    Returns the changes of those who were told cpus that are others' own. O(containers).
    """
    for container_id, container in snapshot.containers.items():
        classified = snapshot.classified.get(container_id)
        if classified is None:
            roster.leave_out(container, snapshot.decisions[container_id])
            continue
        roster.add(container, classified)
        if container_id in snapshot.decisions:
            roster.decisions[container_id] = snapshot.decisions[container_id]
    roster.pod_sizes.update(snapshot.pod_sizes)
    # In this order they were known, and are named in texts.
    for container_id in [one for one in roster.classified if one in snapshot.grants]:
        classified = roster.classified[container_id]
        container = snapshot.containers[container_id]
        books.let_count(container, classified.rules, classified.placement)
    for pen in snapshot.pens.values():
        books.ledger.add(pen)
    for container_id, grant in snapshot.grants.items():
        books.ledger.add(grant)
        books.pinner.note(container_id, snapshot.pinnings[container_id])
    for left in snapshot.left.values():
        books.ledger.keep_left(left)
    books.ledger.narrowed.hold_stuck(snapshot.stuck)
    books.memory.restore(snapshot.memory)
    books.inherit(snapshot.memory_look, snapshot.due_dram)
    return books.pinner.drain()


def hold_again(before: Snapshot, books: Books, roster: Roster) -> tuple[Change, ...]:
    """Hold in empty books what `without_faulty` has found, and no memory but for that.

    Nobody is adopted, and nothing is worked out anew. Returns the changes of those who were told
    cpus that are others' own. O(containers).
    """
    # Of an older instance that is half released nothing is known to be told, and nothing is noted.
    pinnings = {**dict.fromkeys(before.grants, Pinning()), **before.pinnings}
    changes = restore(replace(before, pinnings=pinnings), books, roster)
    held = {**before.pens, **before.grants}
    for holding, _ in before.memory.holdings:
        container_id = holding.request.container_id
        if container_id not in held and container_id != WITHHELD:
            books.memory.release(container_id)
    for container_id, grant in before.grants.items():
        if grant.pen is None and books.memory.request_of(container_id) is None:
            books.adopt_memory(roster.classified[container_id].request, grant, grant.memory)
    return changes


def without_faulty(
    books: Books, roster: Roster, faulty: ContainerId, told: Mapping[ContainerId, Pinning]
) -> Snapshot:
    """The snapshot of what was held before the event at work, but by the container it is about.

    As far as a fault has left it in these books. `told`: what containers were told before.
    O(grants).
    """
    found = snapshot_of(books, roster)
    grants, pens, left = [table.before() for table in books.ledger.tables]
    # An older instance of it may be released by now.
    known = found.containers.keys() - {faulty}
    grants = {one: grant for one, grant in grants.items() if one in known}
    # One may have been made for it alone.
    inside = {grant.pen for grant in grants.values()}
    return replace(
        found,
        containers={one: known_as for one, known_as in found.containers.items() if one in known},
        grants=grants,
        pens={one: pen for one, pen in pens.items() if one in inside},
        left={one: grant for one, grant in left.items() if one != faulty},
        pinnings={**found.pinnings, **told},
    )

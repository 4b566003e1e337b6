"""Parts of a container's own cpus on which others need it: it gives up others first."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from ..books.books import Books
from ..books.whereabouts import Whereabouts
from ..model.container import Container
from ..model.grant import Grant
from ..rules.podaffinity.term_selection import instances, select_included

_OWNERS_MAX: Final = 256
"""So many owners are looked at, and rules about others: cpus that further ones need are given up
like others."""


def needed_parts(container: Container, grant: Grant, books: Books) -> Sequence[int]:
    """Masks of own cpus of a container, of each of which it has to keep one.

    Where somebody that must be with it is in a domain of which no other that would do has any cpu.
    O(rules that require it + owners).
    """
    standing, residents, domains = books.standing, books.affinity.residents, books.domains
    if not standing.has_required_affinity or grant.pen is not None:
        return ()
    place, own = residents.place(container.id), grant.exclusive.mask
    # Where it shares cpus, it stays.
    shared = books.presence(container.id) & ~own
    whereabouts, looks = Whereabouts(books), _OWNERS_MAX
    found: dict[int, None] = {}
    for one in standing.requiring([container]):
        owners, term = list(islice(one.owners.values(), looks)), one.rule.term
        if not owners:
            break
        places = select_included(residents, owners[0], term)
        if not places & place:
            looks -= 1
            continue
        looks -= len(owners)
        # In other domains it needs nothing of this container.
        around = domains.covering(term.level, own)
        others = whereabouts.on(around, places & ~place)
        mates = [(owner, instances(residents, owner)) for owner in owners]
        mates = [(owner, some) for owner, some in mates if not some & place]
        reaches = books.reaches([owner.id for owner, _ in mates])
        parts = [(reach & around, some) for reach, (_, some) in zip(reaches, mates, strict=True)]
        parts = [(reach, some & others) for reach, some in parts if reach]
        without = whereabouts.cpus_without_each(others, [some for _, some in parts])
        for (reach, _), elsewhere in zip(parts, without, strict=True):
            alone = reach & ~domains.covering(term.level, elsewhere | shared)
            needed = domains.covering(term.level, alone) & own
            found.update(dict.fromkeys(domains.parts(term.level, needed)))
    return tuple(found)

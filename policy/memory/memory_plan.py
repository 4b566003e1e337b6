"""Plans of moves where memory is short: the accounting as it would be, beside the real one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..model.container import ContainerId
from .memory_nodes import KIND_BITS, MemoryNodes
from .memory_zones import Holding, Zone, Zones
from .offers import MemoryPriority

_LIMITS: Final = (
    MemoryPriority.BURSTABLE,
    MemoryPriority.GUARANTEED,
    MemoryPriority.PRESERVED,
)


class Plan:
    """Zones as they would be after some moves. The zones themselves are not touched.

    A zone is overcommitted where more is held of it than it has. One that was overcommitted before
    is left so (containers that run already are adopted as they are), but never made worse.
    """

    def __init__(self, nodes: MemoryNodes, zones: Zones, asking: ContainerId | None = None) -> None:
        """`asking`: the container it is all for, which is in no move."""
        self._nodes = nodes
        self._zones = zones
        self._asking = asking
        self._usage: dict[Zone, int] = {}
        self._direct: dict[Zone, int] = {}
        self._arrivals: dict[Zone, dict[ContainerId, Holding]] = {}
        self._held: dict[ContainerId, Holding] = {}
        self._origin: dict[ContainerId, Zone | None] = {}
        self._place: dict[ContainerId, Zone | None] = {}

    def zone(self, mask: int) -> Zone:
        """The zone of these nodes, with the moves so far counted where it is a new one."""
        zone = self._zones.zone(mask)
        if zone not in self._usage:
            changes = self._direct.items()
            self._usage[zone] = sum(size for inner, size in changes if not inner.mask & ~mask)
        return zone

    def shift(self, holding: Holding, source: Zone | None, target: Zone | None) -> None:
        """Move a container; from None it is new, to None it is gone."""
        if source is not None:
            self._count(source, -holding.size)
            self._arrivals.get(source, {}).pop(holding.id, None)
        if target is not None:
            self._count(target, holding.size)
            self._arrivals.setdefault(target, {})[holding.id] = holding
        self._held.setdefault(holding.id, holding)
        self._origin.setdefault(holding.id, source)
        self._place[holding.id] = target

    def place(self, container_id: ContainerId) -> Zone | None:
        """The zone a container that was shifted would have."""
        return self._place[container_id]

    def moves(self) -> dict[ContainerId, Zone]:
        """The changed zones of other containers, by container id."""
        return {
            one: place
            for one, place in sorted(self._place.items())
            if place is not None and place is not self._origin[one] and one != self._asking
        }

    def fits(self, size: int, source: Zone, target: Zone) -> bool:
        """Whether `size` bytes could go from `source` to `target`, a narrower zone within it."""
        for zone in target.containing if size else ():
            # What lies around both holds the bytes already.
            if source.mask & ~zone.mask:
                usage = zone.usage + self._usage.get(zone, 0) + size
                if usage > self._bound(zone) and (zone is target or self._is_used(zone)):
                    return False
        return True

    def is_settled(self) -> bool:
        """Whether nobody has to move."""
        return not self._overcommitted()

    def resolve(self) -> bool:
        """Move containers to wider zones until nothing is overcommitted; False if that fails.

        The least important containers move first, and of those as few as possible; first within
        the kinds of memory they use, then into other kinds.
        """
        extras = self._extra_kinds()
        while True:
            has_moved = False
            for limit in _LIMITS:
                for extra in extras:
                    short = self._overcommitted()
                    if not short:
                        self._take_back()
                        return True
                    for zone in short:
                        has_moved |= self._relieve(zone, extra, limit)
            if not has_moved and self._overcommitted():
                return False

    def _count(self, zone: Zone, size: int) -> None:
        self._direct[zone] = self._direct.get(zone, 0) + size
        for around in zone.containing:
            self._usage[around] = self._usage.get(around, 0) + size

    def _is_used(self, zone: Zone) -> bool:
        return zone.direct + self._direct.get(zone, 0) > 0

    def _bound(self, zone: Zone) -> int:
        return max(zone.capacity, zone.usage) if zone.direct else zone.capacity

    def _excess(self, zone: Zone) -> int:
        if not self._is_used(zone):
            return 0
        return zone.usage + self._usage.get(zone, 0) - self._bound(zone)

    def _overcommitted(self) -> list[Zone]:
        # Inner zones first: who leaves them for a zone around may be the one to leave that too.
        short = [zone for zone in self._usage if self._excess(zone) > 0]
        return sorted(short, key=lambda zone: (zone.mask.bit_count(), zone.mask))

    def _extra_kinds(self) -> list[int]:
        extras = [0]
        for position in range(KIND_BITS):
            if self._nodes.kinds_present >> position & 1:
                extras.append(extras[-1] | 1 << position)
        return extras

    def _users(self, zone: Zone) -> list[Holding]:
        stay = [user for one, user in zone.users.items() if one not in self._place]
        return [*stay, *self._arrivals.get(zone, {}).values()]

    def _relieve(self, zone: Zone, extra: int, limit: MemoryPriority) -> bool:
        """Move users of an overcommitted zone to the next wider one; whether anybody moved."""
        if self._excess(zone) <= 0:
            return False
        # Those who may have reserved memory may have other zones to go to than the others.
        targets: dict[MemoryNodes, Zone] = {}
        for nodes in (self._nodes, self._nodes.ordinary):
            targets[nodes] = self.zone(zone.mask | nodes.expansion(zone.mask, zone.kinds | extra))
        users = [
            user
            for user in self._users(zone)
            if user.size
            and user.request.priority <= limit
            and _may_use(user, targets[self._nodes_of(user)])
            and targets[self._nodes_of(user)] is not zone
        ]
        chosen = choose(users, self._excess(zone), self._place)
        for user in chosen:
            self.shift(user, zone, targets[self._nodes_of(user)])
        return bool(chosen)

    def _nodes_of(self, user: Holding) -> MemoryNodes:
        return self._nodes.open_to(user.request.may_use_reserved)

    def _take_back(self) -> None:
        """Undo every single move that proved unnecessary."""
        moved = [self._held[one] for one in self.moves()]
        for holding in sorted(moved, key=lambda h: (-h.request.priority, -h.size, h.sequence)):
            origin, place = self._origin[holding.id], self._place[holding.id]
            assert origin is not None, "a move has an origin"
            assert place is not None, "a move has a target"
            if self.fits(holding.size, place, origin):
                self.shift(holding, place, origin)


def _may_use(holding: Holding, zone: Zone) -> bool:
    return not (holding.request.is_strict and zone.kinds & ~holding.kinds)


def choose(
    users: Iterable[Holding], need: int, moved: Mapping[ContainerId, object]
) -> Sequence[Holding]:
    """The users whose sizes add up to `need`, all of them where they do not.

    The lowest priority first; of one priority as few as possible, then who is in `moved` already,
    then the smallest, then the youngest.
    """
    classes: dict[int, list[Holding]] = {}
    for user in users:
        classes.setdefault(user.request.priority, []).append(user)
    chosen: list[Holding] = []
    left = need
    for priority in sorted(classes):
        group = sorted(classes[priority], key=lambda h: (h.size, h.id in moved, h.sequence))
        while group and left > 0:
            if group[-1].size < left:
                user = group.pop()
            else:
                user = min(
                    (one for one in group if one.size >= left),
                    key=lambda h: (h.id not in moved, h.size, -h.sequence),
                )
            chosen.append(user)
            left -= user.size
    return chosen

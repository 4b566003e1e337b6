"""Another amount of cpu and memory for a container that runs."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..books.booking import Booking
from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..books.named_cpus import can_spare
from ..memory.offers import Offer
from ..model.grant import Grant, PoolId, Refusal
from ..model.request import CpuType, Isolation, Request
from .hint_demand import shares_near_hints, strict_cpus, suitable_cpus
from .placer import Failure, Placement

RESIZED: Final = "resize"
"""What decides where a container, or a pen, gets more or less where it is."""

_NONE_CLOSED: Final[Mapping[int, str]] = MappingProxyType({})


class Resizer:
    """Plans resizes from what a ledger has left."""

    def __init__(self, books: Books) -> None:
        """Reads the books, never changes them."""
        self._tree = books.tree
        self._ledger = books.ledger
        self._memory = books.pool_memory
        self._picker = books.picker

    def plan(
        self,
        held: Grant,
        request: Request,
        allowed: int | None = None,
        closed: Mapping[int, str] = _NONE_CLOSED,
        back: int = 0,
        owed: int = 0,
        needed: Sequence[int] = (),
        left: Ledger | None = None,
    ) -> Placement | Failure:
        """The grant of a container that asks for something else than it has.

        It grows next to what it has and gives up first what it got last. Where its pool has no
        room for more, the nearest pool above that has takes over. `allowed`: a mask of the cpus
        that rules between containers leave to it; None where they leave all. `closed`: the pools
        that rules about pools keep it from, with the names of these. `back`: a mask of the cpus
        that it grows to first. `owed`: of those that it may share and not have for itself.
        `needed`: masks of its own cpus, of each of which it keeps one if it can. `left`: the ledger
        once it has given back its share, where it is planned several times.
        """
        # What it gives back is free for itself first. A pen may be planned narrower than it is.
        booked = self._ledger.pens.get(held.container_id, held)
        left = self._ledger.without_share(booked) if left is None else left
        if request.exclusive > len(held.exclusive):
            # Which cpus it can have must not depend on what was asked before.
            left.spare_cpus.restart()
        placement = self._plan(held, request, left, allowed, closed, back, owed, needed)
        if isinstance(placement, Failure) and request.fallback is not None:
            less = self.plan(held, request.fallback, allowed, closed, back, owed, needed, left)
            return placement if isinstance(less, Failure) else less
        return placement

    def _plan(
        self,
        held: Grant,
        request: Request,
        ledger: Ledger,
        allowed: int | None,
        closed: Mapping[int, str],
        back: int,
        owed: int,
        needed: Sequence[int],
    ) -> Placement | Failure:
        place = self._resized_place(held, request, ledger, allowed, closed, owed)
        if isinstance(place, Failure):
            return place
        cpu_type, pool_id = place
        mask = (-1 if allowed is None else allowed) & ~owed
        if held.cpu_type is CpuType.PRESERVE:
            # They are claimed for it, whatever it asks for.
            exclusive, grown = held.exclusive, held.grown
        elif request.exclusive > len(held.exclusive):
            exclusive, grown = self._extended(held, request, pool_id, ledger, mask, allowed, back)
        else:
            exclusive, grown = self._shrunk(held, request, needed)
        offer = None
        memory = held.memory
        answer = self.resized_memory(held, request, exclusive)
        if isinstance(answer, Refusal):
            return Failure(refusal=answer)
        if answer is not None:
            offer, memory = answer, answer.zone
        grant = replace(
            held,
            pool_id=pool_id,
            cpu_type=cpu_type,
            exclusive=exclusive,
            isolated=exclusive & self._tree.root.isolated,
            grown=grown,
            shared_milli=request.shared_milli,
            memory=memory,
            memory_bytes=request.memory_bytes,
            within=self._within(pool_id, allowed),
        )
        return Placement(booking=Booking(grant=grant, offer=offer), decided_by=RESIZED)

    def resized_memory(
        self, held: Grant, request: Request, exclusive: CpuSet
    ) -> Offer | Refusal | None:
        """The memory after a resize; None where it stays as it is.

        It goes along to own cpus that are chosen anew, and where the last of those near it are
        given up.
        """
        choice, tree = self._memory.choice(request), self._tree
        if exclusive and not held.exclusive:
            return choice.follow(held, tree.smallest_holding(exclusive).id)
        if exclusive and held.exclusive - exclusive:
            near = tree.cpus_near(held.exclusive, held.memory)
            if near and near.isdisjoint(exclusive):
                return choice.follow(held, tree.smallest_holding(exclusive).id)
        return choice.resize(held)

    def _within(self, pool_id: PoolId, allowed: int | None) -> CpuSet | None:
        sharable = self._tree.pools[pool_id].sharable.mask
        if allowed is None or not sharable & ~allowed:
            return None
        return CpuSet(sharable & allowed)

    def _resized_place(
        self,
        held: Grant,
        request: Request,
        ledger: Ledger,
        allowed: int | None,
        closed: Mapping[int, str],
        owed: int,
    ) -> tuple[CpuType, PoolId] | Failure:
        """From which cpus of which pool a container is served after a resize."""
        root = self._tree.root.id
        if held.cpu_type is CpuType.NORMAL:
            found = self._resized_pool(held, request, ledger, allowed, closed, owed)
            if not isinstance(found, Failure):
                return CpuType.NORMAL, found
            # It came when the reserved cpus were full; those can refuse nobody.
            return (CpuType.RESERVED, root) if request.cpu_type is CpuType.RESERVED else found
        more = request.shared_milli - held.shared_milli
        if (
            held.cpu_type is CpuType.RESERVED
            and more > max(ledger.free_reserved_milli, 0)
            and request.shared_milli <= ledger.room.grantable_milli[root]
        ):
            return CpuType.NORMAL, root
        return held.cpu_type, held.pool_id

    def _resized_pool(
        self,
        held: Grant,
        request: Request,
        ledger: Ledger,
        allowed: int | None,
        closed: Mapping[int, str],
        owed: int,
    ) -> PoolId | Failure:
        """The pool of a grant, or the nearest above it, that has what a resize asks for."""
        room = ledger.room
        more = request.exclusive - len(held.exclusive)
        if more <= 0 and request.shared_milli <= held.shared_milli:
            return held.pool_id
        back = 0
        if more < 0:
            kept, _ = self._shrunk(held, request)
            back = len(held.exclusive - kept - held.isolated)
        candidates: dict[str, str] = {}
        for pool_id in (held.pool_id, *self._tree.ancestors[held.pool_id]):
            name = self._tree.pools[pool_id].name
            if pool_id in closed:
                candidates[name] = f"{closed[pool_id]} keeps it out"
                continue
            isolated = ledger.free_isolated[pool_id].bit_count()
            is_isolated = _grows_isolated(held, request, isolated)
            if more > 0 and not is_isolated and request.isolation is Isolation.REQUIRED:
                candidates[name] = f"isolated CPUs: wanted {more} more, available {isolated}"
                continue
            free = ledger.free_sharable[pool_id]
            if (
                more > 0
                and not is_isolated
                and (left := _spare(ledger, pool_id, free, more)) < more
            ):
                candidates[name] = f"exclusive CPUs: wanted {more} more, available {left}"
                continue
            if objection := _objection(request, pool_id, ledger, more, is_isolated=is_isolated):
                candidates[name] = objection
                continue
            taken = 0 if is_isolated else max(more, 0)
            left = max(room.grantable_milli[pool_id] + 1000 * (back - taken), 0)
            if request.shared_milli <= left and not ledger.narrowed.is_empty:
                left = self._grantable(held, request, ledger, free, taken)
            if request.shared_milli > left:
                wanted = request.shared_milli
                candidates[name] = f"shared CPU: wanted {wanted}m, available {left}m"
                continue
            if allowed is not None:
                own = more
                if more > 0 and is_isolated:
                    own = ledger.free_isolated[pool_id] & allowed & ~owed
                    own = strict_cpus(request, own).bit_count()
                elif more > 0:
                    # To slice a wide pool costs most of a plan.
                    near = strict_cpus(request, free & allowed & ~owed)
                    own = _spare(ledger, pool_id, near, more)
                shared = self._grantable(held, request, ledger, free & allowed, taken)
                if own < more or shared < request.shared_milli:
                    cpus = [f"{own} CPUs"] if more > 0 else []
                    if request.shared_milli:
                        cpus.append(f"{shared}m of shared CPU")
                    candidates[name] = f"rules between containers leave {' and '.join(cpus)}"
                    continue
            return pool_id
        reasons = "; ".join(f"{name}: {reason}" for name, reason in candidates.items())
        reason = f"no room to grow to {request.describe()} — {reasons}"
        return Failure(refusal=Refusal(reason=reason))

    def _grantable(
        self, held: Grant, request: Request, ledger: Ledger, cpus: int, taken: int
    ) -> int:
        """Milli-cpus that a share of these cpus may get at most, of those that are asked for.

        `taken`: so many of them become its own.
        """
        if taken or len(held.exclusive) == request.exclusive:
            return ledger.spare_cpus.grantable(cpus, taken, request.shared_milli)
        # What it gives up of its own is for it to share, too.
        without = self._ledger.copy()
        without.drop(held.container_id)
        kept, _ = self._shrunk(held, request)
        cpus |= held.exclusive.mask & ~(kept | held.isolated).mask
        return without.spare_cpus.grantable_beside(kept.mask, cpus, request.shared_milli)

    def _extended(
        self,
        held: Grant,
        request: Request,
        pool_id: PoolId,
        ledger: Ledger,
        allowed: int,
        region: int | None,
        back: int,
    ) -> tuple[CpuSet, tuple[CpuSet, ...]]:
        """The exclusive cpus of one that grows, and which of them were added after creation.

        `region`: a mask of the cpus that it may share.
        """
        more = request.exclusive - len(held.exclusive)
        isolated = ledger.free_isolated[pool_id]
        is_isolated = _grows_isolated(held, request, isolated.bit_count())
        free = isolated if is_isolated else ledger.slice(pool_id)
        mask = held.exclusive.mask

        def pick(free: int) -> int | None:
            free = suitable_cpus(request, free & allowed, more)
            near = free & back
            if near.bit_count() >= more:
                return self._picker.extend(mask, near, more, request.priority, smt=request.smt)
            left = more - near.bit_count()
            beside = self._picker.extend(
                mask | near, free & ~near, left, request.priority, smt=request.smt
            )
            return None if beside is None else beside | near

        added = None
        if back and not is_isolated:
            # Which cpus are kept for others was chosen while it was away.
            again = pick(ledger.free_sharable[pool_id] & (free | back))
            added = again if again is not None and can_spare(again, pool_id, ledger) else None
        if added is None:
            added = pick(free)
        if not (is_isolated or ledger.narrowed.is_empty):
            shared, spare = ledger.free_sharable[pool_id], ledger.spare_cpus
            within = shared if region is None else shared & region
            if added is None or not spare.can_take(added, within, request.shared_milli):
                added = pick(spare.settled(strict_cpus(request, shared & allowed), more))
        assert added is not None, (held.container_id, pool_id)
        return held.exclusive | CpuSet(added), (*held.grown, CpuSet(added))

    def _shrunk(
        self, held: Grant, request: Request, needed: Sequence[int] = ()
    ) -> tuple[CpuSet, tuple[CpuSet, ...]]:
        """The exclusive cpus of a container that asks for fewer, what it got last given up.

        But for those that others need, as far as these are not too many.
        """
        kept, grown = self._given_up(held, request)
        if all(kept.mask & one for one in needed):
            return kept, grown
        must = 0
        for one in needed:
            if not must & one:
                must |= self._pick_of(CpuSet(held.exclusive.mask & one), 1, request)
        if request.whole_cores:
            must = self._picker.cores.covering(must) & held.exclusive.mask
        left = request.exclusive - must.bit_count()
        if left < 0:
            return kept, grown
        rest = held.exclusive - CpuSet(must)
        others, _ = self._given_up(
            replace(held, exclusive=rest, grown=_within(held.grown, rest)),
            replace(request, exclusive=left),
        )
        kept = others | CpuSet(must)
        return kept, _within(held.grown, kept)

    def _given_up(self, held: Grant, request: Request) -> tuple[CpuSet, tuple[CpuSet, ...]]:
        more = request.exclusive - len(held.exclusive)
        kept, grown = held.exclusive, list(held.grown)
        while more < 0 and grown:
            last = grown.pop()
            left = self._pick_of(last, max(len(last) + more, 0), request)
            more += len(last) - left.bit_count()
            kept -= last - CpuSet(left)
            if left:
                grown.append(CpuSet(left))
        if more < 0:
            near, count = self._tree.cpus_near(kept, held.memory), request.exclusive
            left = self._pick_of(near, min(count, len(near)), request)
            left |= self._pick_of(kept - near, max(count - len(near), 0), request)
            kept = CpuSet(left)
        return kept, tuple(grown)

    def _pick_of(self, cpus: CpuSet, count: int, request: Request) -> int:
        return self._picker.pick(cpus.mask, count, request.priority, request.smt) or 0


def _within(grown: Iterable[CpuSet], cpus: CpuSet) -> tuple[CpuSet, ...]:
    return tuple([left for one in grown if (left := one & cpus)])


def _objection(
    request: Request, pool_id: PoolId, ledger: Ledger, more: int, *, is_isolated: bool
) -> str:
    """The reason why more cpus would be far from a strict container's hints; empty where not."""
    if not request.is_strict:
        return ""
    if more > 0:
        free = ledger.free_isolated[pool_id] if is_isolated else ledger.slice(pool_id)
        near = strict_cpus(request, free).bit_count()
        if near < more:
            return f"exclusive CPUs fail strict hints: wanted {more} more, available {near}"
    if not shares_near_hints(request, ledger.free_sharable[pool_id]):
        return "shared CPUs fail strict hints"
    return ""


def _spare(ledger: Ledger, pool_id: PoolId, cpus: int, wanted: int) -> int:
    """The number of these cpus of a pool that somebody may have for himself at once."""
    count = ledger.room.sliceable[pool_id]
    if ledger.narrowed.is_empty:
        return min(count, (ledger.slice(pool_id) & cpus).bit_count())
    return min(count, ledger.spare_cpus.takeable(cpus, wanted).bit_count())


def _grows_isolated(held: Grant, request: Request, isolated: int) -> bool:
    """Whether the cpus a resize adds are isolated ones, where so many are free."""
    more = request.exclusive - len(held.exclusive)
    return 0 < more <= isolated and (bool(held.isolated) or request.wants_isolated)

"""Plans of moves: a container that runs goes to another pool, with all that it asks for."""

from msgspec.structs import replace

from ...topology.sets.cpuset import CpuSet
from ..books.booking import Booking
from ..books.books import Books
from ..books.cpu_ledger import Ledger
from ..memory.offers import Offer
from ..model.container import ContainerId
from ..model.grant import Grant, PoolId, Refusal
from ..model.move_purpose import MovePurpose
from ..model.request import CpuType, Request
from .hint_demand import suitable_cpus
from .placer import Failure, Placement


class Mover:
    """Plans moves from what a ledger has left."""

    def __init__(self, books: Books) -> None:
        """Reads the books, never changes them."""
        self._tree = books.tree
        self._ledger = books.ledger
        self._books = books
        self._picker = books.picker

    def plan(
        self, held: Grant, request: Request, pool_id: PoolId, purpose: MovePurpose
    ) -> Placement | Failure:
        """The grant of a container in another pool; nobody else has to make room for it.

        It is refused where it would take the last cpu of containers that asked for none.
        """
        if objection := immovable(held, request):
            return Failure.of(objection)
        ledger = self._ledger.copy()
        ledger.drop(held.container_id)
        exclusive = self._cpus(held, request, pool_id, ledger)
        if isinstance(exclusive, Failure):
            return exclusive
        offer = memory_elsewhere(held.container_id, request, pool_id, self._books)
        if isinstance(offer, Failure):
            return offer
        grant = replace(
            held,
            pool_id=pool_id,
            exclusive=exclusive,
            grown=(),
            memory=offer.zone,
            memory_bytes=request.memory_bytes,
        )
        return Placement(booking=Booking(grant=grant, offer=offer), decided_by=purpose.value)

    def _cpus(
        self, held: Grant, request: Request, pool_id: PoolId, ledger: Ledger
    ) -> CpuSet | Failure:
        """The exclusive cpus in the other pool, which has room for the shared part as well."""
        name, count = self._tree.pools[pool_id].name, len(held.exclusive)
        room = ledger.room
        left = max(room.shared_milli[pool_id] - 1000 * count, 0)
        wanted = held.shared_milli if count else max(held.shared_milli, 1)
        if left < wanted:
            return Failure.of(f"{name}: shared CPU: wanted {wanted}m, available {left}m")
        spare, is_plain = ledger.spare_cpus, ledger.narrowed.is_empty
        shared = ledger.free_sharable[pool_id]
        milli = held.shared_milli
        if milli and not is_plain and (left := spare.grantable(shared, count, milli)) < milli:
            return Failure.of(f"{name}: shared CPU: wanted {milli}m, available {left}m")
        if not count:
            return held.exclusive
        sliceable = room.sliceable[pool_id]
        if not is_plain:
            sliceable = min(sliceable, spare.takeable(shared, count).bit_count())
        if sliceable < count:
            return Failure.of(f"{name}: exclusive CPUs: wanted {count}, available {sliceable}")
        picked = self._pick(ledger.slice(pool_id), count, request)
        if not is_plain and (picked is None or not spare.can_take(picked, shared, milli)):
            picked = self._pick(spare.settled(shared, count), count, request)
        if picked is None:
            return Failure.of(f"{name}: {count} exclusive CPUs that suit it are not free")
        return CpuSet(picked)

    def _pick(self, free: int, count: int, request: Request) -> int | None:
        if request.whole_cores:
            free &= self._picker.cores.idle_full(self._tree.root.cpus.mask, free)
        free = suitable_cpus(request, free, count)
        return self._picker.pick(free, count, request.priority, request.smt)


def memory_elsewhere(
    held_as: ContainerId, request: Request, pool_id: PoolId, books: Books
) -> Offer | Failure:
    """The memory of a container, or a pen, in another pool, for which nobody else leaves nodes."""
    wanted = books.pool_memory.choice(request).request_at(pool_id)
    offer = books.memory.offer(wanted, replaces=held_as)
    if isinstance(offer, Refusal):
        return Failure(refusal=offer)
    if offer.moves:
        return Failure.of(f"memory: others would have to leave nodes {offer.zone}")
    return offer


def immovable(held: Grant, request: Request) -> str:
    """The reason why a container can be in no other pool than its own; empty where it can."""
    if held.cpu_type is not CpuType.NORMAL or request.cpu_type is not CpuType.NORMAL:
        return f"it runs on {held.cpu_type.value} cpus"
    if objection := bound_to_place(held, request):
        return objection
    if (len(held.exclusive), held.shared_milli) != (request.exclusive, request.shared_milli):
        return "it does not have what it asks for"
    return ""


def bound_to_place(held: Grant, request: Request) -> str:
    """The reason why a container, or one of a pen, cannot leave its place; empty without any."""
    if held.isolated:
        return "it has cpus that the kernel isolates"
    if request.hints:
        return "it is where its devices are"
    if held.preserve_memory:
        return "its memory is not to be touched"
    if request.cold_start_ns:
        return "it begins without DRAM"
    if request.hugepage_bytes:
        return "its huge pages are where they are"
    return ""

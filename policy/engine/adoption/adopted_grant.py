"""Adopted grants: which one a running container already has, read off the cpus it runs on.

Re-adoption is not admission: a container keeps exactly what it has as long as that is legal, even
where it would not be placed there today.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from ....topology.sets.cpuset import NO_CPUS, CpuSet
from ...books.booking import grant_of
from ...books.books import Books
from ...books.cpu_ledger import Ledger
from ...books.named_cpus import claimed_part, left_of_share
from ...cpus.picker import CpuPicker
from ...model.container import Container, ContainerId, QosClass
from ...model.grant import Grant
from ...model.request import CpuType, Request
from ...pools.pool_tree import Pool, PoolTree
from ..advice import Advice


def overlaps(running: Sequence[tuple[Container, Request | None]]) -> dict[ContainerId, int]:
    """For each container the mask of the cpus that any other one runs on. O(containers).

    Preserved containers and those without a request count for nothing: they may run on anybody's
    cpus.
    """
    return overlaps_of(
        {
            one.id: one.cpus.mask
            if one.cpus and request is not None and request.cpu_type is not CpuType.PRESERVE
            else 0
            for one, request in running
        }
    )


def overlaps_of(masks: Mapping[ContainerId, int]) -> dict[ContainerId, int]:
    """For each container the mask of the cpus that are in the mask of any other one, too."""
    once = twice = 0
    for mask in masks.values():
        twice |= once & mask
        once |= mask
    return {container_id: twice | (once & ~mask) for container_id, mask in masks.items()}


def adopted_grant(
    container: Container,
    request: Request,
    books: Books,
    others: int,
    advice: Advice | None = None,
) -> Grant | None:
    """The grant that explains the cpus a container has; None where there is no legal one.

    `others` is the mask of the cpus of all other running containers. Exclusive grants must be
    adopted before shared ones: what they hold is not legal for anybody else.
    """
    if request.fallback is None:
        return _explained(container, request, books, others, advice)
    for one in _likely(request, container.cpus or NO_CPUS, others, advice):
        grant = _explained(container, one, books, others, advice)
        if grant is not None:
            return grant
    return None


def _likely(
    request: Request, cpus: CpuSet, others: int, advice: Advice | None
) -> Iterator[Request]:
    """What a container may have been served with, or have left of that since."""
    *wishes, last = request.wishes
    if advice is None:
        likely = [one for one in wishes if not one.exclusive or not cpus.mask & others]
    else:
        count = len(advice.exclusive)
        likely = [one for one in wishes if one.exclusive == count]
        is_last = last.exclusive == count and not (last.shared_milli and cpus == advice.exclusive)
        if count and not likely and not is_last:
            more = [one for one in wishes if one.exclusive > count][:1]
            # Or it was made smaller since, and has them for itself for all that.
            likely = more or [one for one in wishes if one.exclusive]
    return iter((*likely, last))


def _explained(
    container: Container,
    request: Request,
    books: Books,
    others: int,
    advice: Advice | None,
) -> Grant | None:
    ledger, picker = books.ledger, books.picker
    root = ledger.tree.root
    if request.cpu_type is CpuType.PRESERVE:
        claimed = claimed_part(request.claimed, ledger)
        if advice is not None:
            # The rest was others' when it came; by now somebody else may share that.
            claimed &= advice.exclusive
        return grant_of(request, root.id, claimed, claimed & root.isolated, None)
    # An offline cpu cannot run anybody; the kernel leaves it in the set it was told.
    cpus = (container.cpus or NO_CPUS) & root.cpus
    if not cpus:
        return None
    if request.cpu_type is CpuType.RESERVED:
        was_reserved = advice is not None and advice.is_reserved
        # Where none are left to reserve, those who had them run on the root's shared ones.
        is_lodger = (
            was_reserved and not root.reserved and cpus.mask == ledger.free_sharable[root.id]
        )
        # Or one that the reserved cpus are only lent to, as no others are left to share.
        is_guest = advice is not None and not (was_reserved or ledger.free_sharable[root.id])
        if (cpus <= root.reserved and (request.shared_milli or not is_guest)) or is_lodger:
            return grant_of(request, root.id, NO_CPUS, NO_CPUS, None)
        if was_reserved:
            # Others are reserved by now: those are for it, and its old ones for everybody.
            return None
        # The reserved cpus were full when it came.
        request = structs.replace(request, cpu_type=CpuType.NORMAL)
    if advice is not None:
        request = _as_before(request, cpus, advice, picker, root.isolated)
    elif cpus <= root.isolated and not cpus.mask & others:
        request = _alone_on(len(cpus), request)
    sharable = CpuSet(ledger.free_sharable[root.id])
    free = sharable | CpuSet(ledger.free_isolated[root.id])
    own = NO_CPUS
    if advice is None:
        own = _beside_reserved(cpus, request, root.reserved, others)
    elif advice.exclusive <= free and _are_remembered(cpus, request, advice, others, picker):
        own = advice.exclusive
    if advice is not None and not (advice.exclusive or request.exclusive):
        cpus = left_of_share(cpus, request.shared_milli, advice.pool, ledger)
    is_lent = _may_be_lent_beside(cpus, request, root.reserved, own)
    exclusive: CpuSet | None = NO_CPUS
    if not request.exclusive:
        if not (cpus <= sharable or may_be_lent(cpus, request.shared_milli, ledger, advice)):
            return None
    elif not (cpus <= free or is_lent) or (advice is not None and not advice.exclusive):
        return None
    elif own:
        exclusive = own
    else:
        args = cpus, request, picker, others, free, root.isolated
        exclusive = _exclusive_part(*args, is_known=advice is not None)
    if exclusive is None or (request.exclusive and not (is_lent or cpus - exclusive <= sharable)):
        return None
    if exclusive and not root.reserved and not sharable - exclusive:
        # Somebody who asked for nothing must be able to run.
        return None
    # A hidden thread may be outside the pool of the others.
    grant = grant_of(request, root.id, exclusive, exclusive & root.isolated, None)
    tree = ledger.tree
    pool = (tree.smallest_sharing if grant.has_shared_part else tree.smallest_holding)(cpus)
    grant = structs.replace(grant, pool_id=pool.id)
    if advice is None:
        return grant
    named = _named(container, advice, cpus, tree) or pool
    within = advice.within
    return structs.replace(
        grant,
        pool_id=named.id if _explains(named, cpus, grant, books) else pool.id,
        grown=advice.grown if exclusive == advice.exclusive else (),
        within=within if within is not None and cpus - exclusive <= within else None,
    )


def _are_remembered(
    cpus: CpuSet, request: Request, advice: Advice, others: int, picker: CpuPicker
) -> bool:
    """Whether the cpus that are remembered as its own are so where a container has these."""
    if advice.explains(cpus, request, picker):
        return True
    # Where others run on them as well, what is remembered is older than its resize.
    is_shared = bool(advice.exclusive.mask & others)
    return not is_shared and advice.is_more_than(cpus, request, picker)


def _named(container: Container, advice: Advice, cpus: CpuSet, tree: PoolTree) -> Pool | None:
    """The pool that is remembered; the one inside it for which alone its name stood.

    While all other cpus of a pool are away there is no narrower one for those that are left. Who
    was there before is told by its memory: whoever came to the wider one has that of more nodes.
    """
    named, usable = tree.named(advice.pool), advice.usable
    if named is None or usable is None or (named.sharable | named.isolated) <= usable:
        return named
    had, mems = named.cpus & usable, container.mems
    if not had or not mems:
        return named
    inner = tree.smallest_sharing(had)
    is_its_memory = mems <= inner.memory_nodes < named.memory_nodes
    return inner if cpus <= inner.cpus <= named.cpus and is_its_memory else named


def _explains(pool: Pool, cpus: CpuSet, grant: Grant, books: Books) -> bool:
    """Whether a container of a pool may run on these cpus."""
    ledger, level, around = books.ledger, grant.idle_level, books.idle.around
    if cpus <= pool.cpus:
        return True
    if not grant.has_shared_part or grant.exclusive:
        return False
    lent = None if ledger.free_sharable[pool.id] else CpuSet(ledger.share(pool.id))
    if level is None:
        return cpus == lent
    held = pool.cpus if lent is None else lent
    # Beyond those it was in another pool by then, and what is remembered is older.
    return not cpus.isdisjoint(held) and not cpus.mask & ~(held.mask | around(pool.id, level))


def may_be_lent(cpus: CpuSet, milli: int, ledger: Ledger, advice: Advice | None) -> bool:
    """Whether a container that shares may have been left with the reserved cpus only.

    One that asks for nothing, is kept there for a rule, or ran when all others were others' own.
    """
    reserved, is_all_taken = ledger.tree.root.reserved, not ledger.free_sharable[-1]
    if advice is None or not milli:
        return cpus <= reserved and not milli
    return cpus <= reserved and (is_all_taken or cpus <= (advice.within or NO_CPUS))


def _may_be_lent_beside(cpus: CpuSet, request: Request, reserved: CpuSet, own: CpuSet) -> bool:
    """Whether a container may have been left with reserved cpus only beside its own ones."""
    # Who has all others may be adopted after it, so that these seem free.
    shared = cpus - own
    return request.shared_milli > 0 and bool(own and shared) and shared <= reserved


def _beside_reserved(cpus: CpuSet, request: Request, reserved: CpuSet, others: int) -> CpuSet:
    """The cpus of its own that a container seems to have beside reserved ones; none otherwise."""
    own = cpus - reserved
    if cpus == own or len(own) != request.exclusive or own.mask & others:
        return NO_CPUS
    return own


def kept_grant(
    container: Container,
    request: Request,
    ledger: Ledger,
    others: int,
    advice: Advice | None = None,
) -> Grant:
    """The grant of a running container that cannot be understood: it is told nothing.

    Cpus that it seems to have for itself are nobody else's meanwhile: those that are remembered, or
    no more than a Guaranteed container asks for and nobody else runs on.
    """
    root = ledger.tree.root
    cpus = (container.cpus or NO_CPUS) & root.cpus
    is_enough = 1000 * len(cpus) <= container.resources.cpu_request_milli
    own = NO_CPUS
    if advice is not None:
        own = advice.exclusive
    elif container.pod.qos is QosClass.GUARANTEED and is_enough and not cpus.mask & others:
        own = cpus
    sharable = CpuSet(ledger.free_sharable[root.id])
    own &= sharable | CpuSet(ledger.free_isolated[root.id])
    if not root.reserved and not sharable - own:
        own = NO_CPUS
    return grant_of(request, root.id, own, own & root.isolated, None)


def has_own_cpus(request: Request, advice: Advice | None) -> bool:
    """Whether a container asks for cpus of its own, or is remembered to have some."""
    return request.exclusive > 0 or (advice is not None and bool(advice.exclusive))


def _as_before(
    request: Request, cpus: CpuSet, advice: Advice, picker: CpuPicker, isolated: CpuSet
) -> Request:
    """The request of a container that has cpus of its own and would get shared ones today.

    A configuration that prefers shared cpus is for those who come; what it asked for it still asks.
    Or of one with fewer of its own beside shared ones: it was given no more as it grew.
    """
    count = len(advice.exclusive)
    is_whole = count >= request.exclusive or advice.exclusive == cpus
    if (request.exclusive and is_whole) or not 0 < 1000 * count <= request.total_milli:
        return request
    shared_milli = request.total_milli - 1000 * count
    before = structs.replace(request, exclusive=count, shared_milli=shared_milli)
    if cpus & isolated - advice.exclusive:
        # Nobody shares those: it has got more of them since.
        return request
    return before if advice.explains(cpus, before, picker) else request


def _alone_on(count: int, request: Request) -> Request:
    """The request of a container that runs on so many isolated cpus, and nobody else does.

    Nobody is ever given a share of those. Where it asks for as many it came before a configuration
    that prefers shared cpus.
    """
    if request.exclusive or request.total_milli != 1000 * count:
        return request
    return structs.replace(request, exclusive=count, shared_milli=0)


def _exclusive_part(
    cpus: CpuSet,
    request: Request,
    picker: CpuPicker,
    others: int,
    free: CpuSet,
    isolated: CpuSet,
    *,
    is_known: bool,
) -> CpuSet | None:
    """The exclusive cpus among those a container has; None where they are not explained so.

    `is_known`: others are remembered to be its own.
    """
    own = cpus.mask & ~others
    if request.shared_milli:
        # The kernel shows the exclusive and the shared cpus as one set: any cpus that nobody else
        # runs on can be the exclusive ones without moving anybody. Isolated ones always are.
        certain = cpus.mask & isolated.mask
        uncertain = request.exclusive - certain.bit_count()
        rest = picker.pick(own & ~certain, uncertain) if uncertain >= 0 else None
        if rest is None and own == cpus.mask and not is_known:
            # Fewer than it asks for, but nobody else's: it grew while nobody looked.
            return cpus
        return None if rest is None else CpuSet(certain | rest)
    missing = request.exclusive - len(cpus)
    if missing and (own != cpus.mask or (missing < 0 and is_known)):
        return None
    # Fewer or more than it asks for, but nobody else's: it was resized while nobody looked.
    if missing > 0 and request.hide_hyperthreads:
        hidden = CpuSet(picker.cores.covering(cpus.mask) & free.mask & ~others) - cpus
        cpus |= CpuSet(picker.pick(hidden.mask, min(missing, len(hidden))) or 0)
    return cpus

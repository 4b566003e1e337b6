"""Advice: what is remembered of the grants of running containers, and tells alike ones apart."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import Final

from msgspec import Struct, structs

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..cpus.picker import CpuPicker
from ..model.container import Container, ContainerId, Resources
from ..model.grant import Grant
from ..model.request import CpuType, Request
from ..placing.judging.unmet_texts import ToldRules
from ..pools.pool_tree import Pool
from ..pools.supply import Supply

_UNMET_CHARACTERS_MAX: Final = 4096
"""Enough for as many rules as are told of one, where names are as long as usual."""


class Advice(Struct, frozen=True, kw_only=True):
    """Remembered parts of a container's grant. Only believed where the cpus agree."""

    pool: str
    exclusive: CpuSet = NO_CPUS
    grown: tuple[CpuSet, ...] = ()
    is_reserved: bool = False
    """It was on the reserved cpus."""
    within: CpuSet | None = None
    """What rules between containers left of its pool's sharable cpus; None: all."""
    unmet: tuple[str, ...] = ()
    """Required rules that did not hold where it is: told again as far as they still do not."""
    is_unmet_cut: bool = False
    """More rules were told than are remembered."""
    is_penned: bool = False
    """It was in a pen; `exclusive` was its slice."""
    rest: CpuSet = NO_CPUS
    """The cpus of its pen that were in no slice."""
    pen: CpuSet = NO_CPUS
    """All cpus of its pen: others had slices of it that are gone by now."""
    pod_size: Resources | None = None
    """The last size of its pod, where that was resized."""
    labels: Mapping[str, str] | None = None
    """The labels of its pod as it was first seen; None where that is not known."""
    usable: CpuSet | None = None
    """The cpus that were not reserved then, nor kept from containers; None: as they are now."""
    reserved: CpuSet | None = None
    """The cpus that were reserved then; None: as they are now."""
    cpu_request_milli: int | None = None
    """What it asked for then; None: not known."""
    beside: tuple[CpuSet, ...] | None = None
    """Cpus kept shared for it, or its pen; None: not known, or under another configuration."""
    told: CpuSet | None = None
    """The cpus that its container was told last: where it runs on others, other programs put it.

    None: it was told none, or perhaps others since."""
    stuck: CpuSet = NO_CPUS
    """The cpus on which the kernel had it, where its runtime refused to take it off some."""
    meant: CpuSet | None = None
    """The cpus that it was told in vain, where it is stuck. None: it was told none."""
    leaving: CpuSet = NO_CPUS
    """The cpus that it, or its pen, was to leave, and may still run on."""

    @classmethod
    def of(
        cls,
        grant: Grant,
        pool: Pool,
        unmet: Iterable[str] = (),
        pod_size: Resources | None = None,
        cpu_request_milli: int | None = None,
    ) -> "Advice":
        """Advice to remember of a grant, which is in this pool, and of a decision's unmet rules.

        `cpu_request_milli`: what its container asks for.
        """
        texts = tuple(unmet)
        remembered = tuple(_within_bounds(texts))
        return cls(
            pool=pool.name,
            exclusive=grant.exclusive,
            grown=grant.grown,
            is_reserved=grant.cpu_type is CpuType.RESERVED,
            within=grant.within,
            unmet=remembered,
            is_unmet_cut=remembered != texts,
            is_penned=grant.pen is not None,
            rest=grant.rest,
            cpu_request_milli=cpu_request_milli,
            pod_size=pod_size,
        )

    def knows_beside(self, grant: Grant, pool: Pool, usable: CpuSet) -> bool:
        """Whether `beside` is of this grant, which is in this pool, where these cpus are usable."""
        place = pool.name, grant.exclusive, grant.within, grant.pen is not None, usable
        remembered = self.pool, self.exclusive, self.within, self.is_penned, self.usable
        return self.beside is not None and remembered == place

    def withdrawn(self, usable: CpuSet) -> CpuSet:
        """The cpus that are reserved by now, or not there, where these are usable."""
        return NO_CPUS if self.usable is None else self.usable - usable

    def as_told(self, container: Container) -> Container:
        """The container on the cpus that it was told last, where other programs may have moved it.

        Or where it is stuck as before. Itself where it may have been told others since, or was told
        none.
        """
        cpus = self.meant if self.told is None and self.stuck == container.cpus else self.told
        if cpus is None or cpus == container.cpus:
            return container
        return structs.replace(container, cpus=cpus)

    def where(self, usable: CpuSet, cpus: CpuSet | None) -> "Advice":
        """The advice for who has some cpus, without those that are not usable any more.

        On others as soon as none of them is. Who was on reserved ones before, as rules left it
        these, stays.
        """
        withdrawn = self.withdrawn(usable)
        if not withdrawn:
            return self
        own = self.exclusive - withdrawn or self.exclusive
        rest = self.rest - withdrawn or self.rest
        if self.is_penned and own != self.exclusive:
            # Less than a slice is shared with all others of its pen.
            own, rest = NO_CPUS, rest | own
        pen = self.pen - withdrawn or self.pen
        grown = tuple(one & own for one in self.grown if one & own)
        left = structs.replace(self, exclusive=own, grown=grown, rest=rest, pen=pen)
        if self.within is None or not cpus or not cpus <= withdrawn:
            return left
        return structs.replace(left, within=self.within - withdrawn or None)

    def is_disproved(self, cpus: CpuSet, picker: CpuPicker) -> bool:
        """Whether a container runs on none of the cpus that it, or its pen, had for itself.

        It was moved since, or has others since it restarted.
        """
        if self.is_penned:
            return cpus.isdisjoint(self.exclusive | self.rest)
        # A shared thread of the same core may hide its own one.
        return not picker.cores.covering(cpus.mask) & self.exclusive.mask

    def explains(self, cpus: CpuSet, request: Request, picker: CpuPicker) -> bool:
        """Whether a container with these exclusive cpus may have this cpuset."""
        if self.exclusive == cpus:
            # However many it asks for: it has them for itself, and a resize will tell.
            return True
        if len(self.exclusive) != request.exclusive:
            return False
        if request.hide_hyperthreads:
            # A shared thread of the same core may hide its own one.
            seen = picker.cores.covering(cpus.mask) if request.shared_milli else cpus.mask
            return bool(seen & self.exclusive.mask)
        return request.shared_milli > 0 and self.exclusive <= cpus

    def is_more_than(self, cpus: CpuSet, request: Request, picker: CpuPicker) -> bool:
        """Whether a container with these exclusive cpus, on this cpuset, was made smaller since.

        It shared some besides, or threads of its own are hidden from it.
        """
        before = self.cpu_request_milli
        if before is None or request.total_milli >= before:
            return False
        seen = picker.cores.covering(cpus.mask) if request.hide_hyperthreads else cpus.mask
        return 0 < request.exclusive <= len(self.exclusive) and not self.exclusive.mask & ~seen


def _within_bounds(texts: Iterable[str]) -> Iterator[str]:
    """The first texts; names in them are strangers', and all of them may be saved."""
    room = _UNMET_CHARACTERS_MAX
    for text in texts:
        room -= len(text)
        if room >= 0 and text.isprintable():
            yield text


def told_rules(advice: Mapping[ContainerId, Advice]) -> ToldRules:
    """The unmet rules that remembered containers told."""
    cut = [one for one, hint in advice.items() if hint.is_unmet_cut]
    return ToldRules(texts={one: hint.unmet for one, hint in advice.items()}, cut=cut)


class Usability(Struct, frozen=True, kw_only=True):
    """Effects of another configuration or machine on cpus, alike at a reload and at a restart."""

    usable: CpuSet
    """Every cpu for containers that are not of the system, as of now."""
    freed: CpuSet
    """Usable cpus that could not be used before."""
    is_reserved: bool
    """Whether some cpus are reserved that were not before."""

    @classmethod
    def since(cls, advice: Collection[Advice], supply: Supply) -> "Usability":
        """The effects of the present supply on what is remembered."""
        before = {one.usable for one in advice if one.usable is not None}
        reserved = {one.reserved for one in advice if one.reserved is not None}
        usable = supply.usable
        return cls(
            usable=usable,
            freed=reduce(CpuSet.__or__, (usable - one for one in before), NO_CPUS),
            is_reserved=any(supply.reserved - one for one in reserved),
        )

    def left_of(self, container: Container, advice: Advice | None) -> Container:
        """The container on those of its cpus that it may still use; itself where none are gone.

        Or where all are. Then it is not placed anew, far from its memory, for one cpu that was
        taken away. Who is not remembered may have begun on anybody's cpus.
        """
        cpus = container.cpus
        if advice is None or cpus is None or not cpus & advice.withdrawn(self.usable):
            return container
        left = cpus & self.usable
        return structs.replace(container, cpus=left) if left else container

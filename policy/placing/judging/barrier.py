"""Barriers: required anti-affinity of residents that is about a newcomer."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from msgspec import Struct, field

from ....topology.model.machine import Level
from ...model.container import Container, ContainerId
from ...model.grant import Dropped
from ...model.level_name import a_level
from ...pools.domains import Domains
from .restriction import Restriction, names_text, others_text

_COLON: Final = ": "
_COLON_JOINED: Final = "{}: {}".format


class Worded(Struct, frozen=True):
    """The paths of owners that were asked for so far, and the owners by these."""

    paths: dict[ContainerId, str] = field(default_factory=dict[ContainerId, str])
    owners: dict[str, list[ContainerId]] = field(default_factory=dict[str, list[ContainerId]])


class BarrierOwners(Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """Owners of a standing rule that insist on it alike: the same of many rules."""

    presence: Mapping[ContainerId, tuple[Container, int]]
    """Each with a mask of the cpus it runs on."""
    cpus: int
    can_break: bool
    are_systems: bool
    """Whether they are of the system: what they block is not limited."""
    worded: Worded = field(default_factory=Worded)
    """The paths, also those that others asked for who share it."""

    @classmethod
    def of(
        cls,
        presence: Mapping[ContainerId, tuple[Container, int]],
        can_break: bool,
        are_systems: bool,
        worded: Worded | None = None,
    ) -> "BarrierOwners":
        """The owners of which each runs on these cpus. `worded`: paths, to be added to."""
        everywhere = 0
        for _, cpus in presence.values():
            everywhere |= cpus
        return cls(
            presence=presence,
            cpus=everywhere,
            can_break=can_break,
            are_systems=are_systems,
            worded=Worded() if worded is None else worded,
        )

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        """Numbers of owners that run on the same cpus, by these."""
        found: dict[int, int] = {}
        for _, cpus in self.presence.values():
            found[cpus] = found.get(cpus, 0) + 1
        return found

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """The owners themselves; never none."""
        return tuple([owner for owner, _ in self.presence.values()])

    def by_path(
        self, paths: Collection[str] | None = None
    ) -> Iterable[tuple[str, tuple[Container, int]]]:
        """The path of each with its place, in their order; of those alone that have such paths."""
        presence, every_path = self.presence, self._paths
        some: Iterable[ContainerId] = presence
        if paths is not None:
            # What is told is of few of them.
            found = {one for path in paths for one in self.worded.owners.get(path, ())}
            found &= presence.keys()
            some = found if len(found) < 2 else list(filter(found.__contains__, presence))
        # They may be many: a call for each would be most of the work.
        return zip(map(every_path.__getitem__, some), map(presence.__getitem__, some), strict=True)

    @cached_property
    def _paths(self) -> Mapping[ContainerId, str]:
        """The paths of these owners, and of others."""
        paths, owners = self.worded.paths, self.worded.owners
        # The same owners may be of many rules, about one container after another.
        for owner_id in self.presence.keys() - paths.keys():
            path = paths[owner_id] = self.presence[owner_id][0].path
            owners.setdefault(path, []).append(owner_id)
        return paths

    @cached_property
    def names(self) -> str:
        """The names of the first of them, for people."""
        return names_text(self.containers)


class Barrier(Struct, frozen=True, kw_only=True):
    """Equal required anti-affinity of some residents that is about a newcomer."""

    text: str
    level: Level
    can_break: bool
    forbidden: int
    """A mask of the cpus of all their domains."""
    insisting: BarrierOwners
    domains: Domains

    @property
    def owners(self) -> Mapping[ContainerId, tuple[Container, int]]:
        """Each with a mask of the cpus it runs on."""
        return self.insisting.presence

    @property
    def guard_text(self) -> str:
        """The rule and its owners, for people."""
        return f"{self.text} of {self.insisting.names}"

    @property
    def whole(self) -> Restriction:
        """The rule of all owners as one."""
        owners, names = self.insisting.containers, self.insisting.names
        return Restriction(
            text=self.text,
            owner=names,
            owner_id=owners[0].id,
            is_own=False,
            can_break=self.can_break,
            forbidden=self.forbidden,
            blockers=owners,
            blocker_names=names,
            wanted=f"{a_level(self.level)} without {names}",
            level=self.level,
        )

    def restrictions(
        self, cpus: int = -1, paths: Collection[str] | None = None
    ) -> Iterator[Restriction]:
        """The rule of each owner by itself.

        `cpus`: of those alone whom it keeps from some. `paths`: of containers of these paths.
        """
        concerned = -1 if cpus == -1 else self.domains.covering(self.level, cpus)
        place = a_level(self.level)
        for path, (owner, presence) in self.insisting.by_path(paths):
            if not presence & concerned:
                continue
            yield Restriction(
                text=self.text,
                owner=path,
                owner_id=owner.id,
                is_own=False,
                can_break=self.can_break,
                forbidden=self.domains.covering(self.level, presence),
                blockers=(owner,),
                wanted=f"{place} without {path}",
                level=self.level,
            )

    def dropped(self, cpus: int) -> Dropped:
        """The objection to a place on these cpus: the rule with all whom it keeps from some."""
        concerned = self.domains.covering(self.level, cpus)
        # They may be many: a call for each would be most of the work.
        near = tuple([owner for owner, here in self.owners.values() if here & concerned])
        name = f"{self.text} of {near[0].path}{others_text(len(near) - 1)}"
        return Dropped(name, f"{a_level(self.level)} without {names_text(near)}", "none")

    def told_by(self, texts: Sequence[str], cpus: int) -> Iterator[Restriction]:
        """The rule of each owner whom it keeps from some cpus, and whose rule a text tells."""
        head = f"{self.text} of "
        told = [one[len(head) :] for one in texts if one.startswith(head)]
        # What follows the path and a colon is the reason, in which there may be some more.
        paths = {path for one in told for path in accumulate(one.split(_COLON), _COLON_JOINED)}
        for one in self.restrictions(cpus, paths) if paths else ():
            if cpus & one.forbidden:
                yield one

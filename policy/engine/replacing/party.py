"""Parties: containers that can only be placed together, and those that must be with them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce

from msgspec import Struct
from msgspec.structs import replace

from ...annotations.preferences import parse_preferences
from ...books.books import Books
from ...books.company import affinity_of
from ...books.whereabouts import Whereabouts
from ...model.container import Container, ContainerId
from ...model.cpu_preference import MovePreference
from ...model.grant import Grant
from ...model.request import Request
from ...placing.classifier import Classified
from ...placing.mover import bound_to_place, immovable
from ...rules.podaffinity.rule_set import PlacementRules, RequiredTerm
from ..penning import Penning


class Party(Struct, frozen=True):
    """Containers that can only be placed together: those of a pen, or one by itself."""

    members: Mapping[ContainerId, tuple[Container, Classified]]
    """Oldest first."""
    held: Grant
    """What they hold together."""
    request: Request
    awaited: Sequence[Container]
    """Containers that come to where they go, once they are there."""

    @property
    def containers(self) -> Mapping[ContainerId, Container]:
        """The members themselves."""
        return {one: container for one, (container, _) in self.members.items()}

    def others(self, container_id: ContainerId) -> Iterator[Container]:
        """All containers but one."""
        return (one for one in self.containers.values() if one.id != container_id)

    def rules_of(self, container_id: ContainerId) -> PlacementRules:
        """The rules of a member but for those that hold beside one that goes where it goes."""
        container, classified = self.members[container_id]
        rules, others = classified.placement, (*self.others(container_id), *self.awaited)
        if not others:
            return rules
        required = tuple(
            one
            for one in rules.required
            if one.is_anti or not any(one.term.includes(container, other) for other in others)
        )
        return replace(rules, required=required)


class Parties:
    """The parties of containers that hold something, as they are at a moment."""

    def __init__(self, pens: Penning) -> None:
        """Reads what that knows, and changes nothing."""
        self.pens, self.books, self.roster = pens, pens.books, pens.roster

    def of(self, container_id: ContainerId, awaited: Iterable[ContainerId] = ()) -> Party:
        """The containers that have to go where one goes. `awaited`: those that come later."""
        books, roster, pens = self.books, self.roster, self.pens
        held = books.ledger.counted(container_id)
        ids = books.ledger.occupants(held.container_id)
        members = {one: (roster.containers[one], roster.classified[one]) for one in ids}
        container, classified = members[ids[0]]
        request, name = classified.request, None
        if held.is_pen:
            name = pens.name_of(container, classified)
        if name is not None:
            request = pens.sizes.request_of(name, container)
            request = replace(
                request, exclusive=len(held.exclusive), shared_milli=held.shared_milli
            )
        ledger = books.ledger
        coming = [ledger.occupants(ledger.grants[one].held_as) for one in awaited]
        containers = [roster.containers[one] for some in coming for one in some]
        return Party(members, held, request, containers)

    def presence(self, party: Party) -> int:
        """A mask of the cpus that a party is on."""
        cpus = 0
        for one in party.members:
            cpus |= self.books.reach(one)
        return cpus

    def objection(self, party: Party) -> str:
        """The reason why a party stays, whatever rules say; empty where it may be moved."""
        wishes = {parse_preferences(one).move for one in party.containers.values()}
        if MovePreference.NEVER in wishes:
            return "its annotation refuses to be moved"
        objection = immovable(party.held, party.request)
        if objection or not party.held.is_pen:
            return objection
        for container, classified in party.members.values():
            held = self.books.ledger.grants[container.id]
            if objection := bound_to_place(held, classified.request):
                return f"{container.path} of its pen: {objection}"
        return ""

    def followers(
        self, container_id: ContainerId, going: Iterable[ContainerId], *, only_lasting: bool
    ) -> Sequence[ContainerId]:
        """Containers that must be with one, are, and may be moved as it may: one of each pen.

        And have nobody else beside them once those go, too, who are `going`. `only_lasting`: those
        whose rules are required during execution, which follow by themselves.
        """
        party, found = self.of(container_id), dict[ContainerId, ContainerId]()
        if self.objection(party):
            return ()
        everybody = {*party.members}.union(*(self.of(one).members for one in going))
        for rule, owner in _LeftOwners(self.books, everybody).of(party.containers):
            if rule.is_lasting or not only_lasting:
                other = self.of(owner.id)
                if not self.objection(other):
                    found.setdefault(other.held.container_id, owner.id)
        return tuple(found.values())

    def left_alone(self, party: Party, after: int, *, lasting_follow: bool) -> Sequence[Container]:
        """The residents that must be with a party, are, and would be with nobody any more.

        `after`: the cpus to which it goes. But for those that it awaits and, if they follow by
        themselves, those that may be moved and whose rules are required during execution.
        """
        awaited = {one.id for one in party.awaited}
        found: dict[ContainerId, Container] = {}
        for rule, owner in _LeftOwners(self.books, party.members).of(party.containers, after):
            if owner.id in awaited:
                continue
            if lasting_follow and rule.is_lasting and not self.objection(self.of(owner.id)):
                continue
            found[owner.id] = owner
        return tuple(found.values())


class _LeftOwners:
    """The owners whose rules would not hold without containers that go, wherever those are then.

    Whoever has another container that will do beside it is left by nobody.
    """

    def __init__(self, books: Books, going: Collection[ContainerId]) -> None:
        """`going`: all who go; nobody among them is left by the others."""
        self._books = books
        self._going = going
        residents = books.affinity.residents
        self._gone = reduce(int.__or__, map(residents.place, going), 0)
        self._around: dict[ContainerId | None, Whereabouts] = {}
        """By the pen of the owner that is looked at."""
        self._affinity: dict[ContainerId, list[tuple[RequiredTerm, int]]] = {}

    def of(
        self, party: Mapping[ContainerId, Container], after: int = 0
    ) -> Iterator[tuple[RequiredTerm, Container]]:
        """The rules about some of those who go that hold, and would not any more, with the owners.

        `after`: the cpus on which those are then; none where they are to be anywhere else.
        """
        books, covering = self._books, self._books.domains.covering
        here = reduce(int.__or__, map(books.reach, party), 0)
        for container in party.values():
            for one in books.standing.matching(container):
                if not isinstance(rule := one.rule, RequiredTerm) or rule.is_anti:
                    continue
                level = rule.term.level
                for owner_id, owner in one.owners.items():
                    around = covering(level, books.reach(owner_id))
                    if owner_id in self._going or not around & here:
                        continue
                    if around & ~covering(level, after) and self._is_left(owner, rule, after):
                        yield rule, owner

    def _is_left(self, owner: Container, rule: RequiredTerm, after: int) -> bool:
        """Whether all domains of an owner have such a container now, and one would have none.

        Where some have none already the rule does not hold; but it is left by the last of them.
        """
        books, covering = self._books, self._books.domains.covering
        pen_id, level = books.pen_around(owner.id), rule.term.level
        around = self._around.get(pen_id)
        if around is None:
            around = self._around[pen_id] = Whereabouts(books, pen_id)
        places = self._about(owner, rule)
        # Between two of one pen a rule speaks of their own parts of it.
        own = books.presence if places & around.mates else books.reach
        here = covering(level, own(owner.id))
        before = here & covering(level, around.cpus(places))
        stay = around.cpus(places & ~self._gone) | (after if places & self._gone else 0)
        left = here & covering(level, stay)
        return left != here if before == here else bool(before and not left)

    def _about(self, owner: Container, rule: RequiredTerm) -> int:
        """The residents that a rule of an owner is about."""
        if owner.id not in self._affinity:
            rules = self._books.standing.of(owner.id)
            self._affinity[owner.id] = affinity_of(owner, rules, self._books)
        return next((places for one, places in self._affinity[owner.id] if one == rule), 0)

"""Parties: containers that can only be placed together, and those that must be with them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...annotations.preferences import parse_preferences
from ...model.container import Container, ContainerId
from ...model.cpu_preference import MovePreference
from ...model.grant import Grant
from ...model.request import Request
from ...placing.classifier import Classified
from ...placing.mover import bound_to_place, immovable
from ...rules.podaffinity.rule_set import PlacementRules, is_lasting
from ..penning import Penning
from .left_owners import LeftOwners


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
        for rule, owner in LeftOwners(self.books, everybody).of(party.containers):
            if is_lasting(rule) or not only_lasting:
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
        for rule, owner in LeftOwners(self.books, party.members).of(party.containers, after):
            if owner.id in awaited:
                continue
            if lasting_follow and is_lasting(rule) and not self.objection(self.of(owner.id)):
                continue
            found[owner.id] = owner
        return tuple(found.values())

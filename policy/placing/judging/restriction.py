"""Restrictions: what one required rule leaves to a newcomer of the cpus and pools."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ....topology.model.machine import Level
from ...model.container import Container, ContainerId
from ...model.grant import Dropped
from ...model.last_place import Breach
from ...model.level_name import a_level, level_noun
from .spread_counts import SpreadCounts

TOLD_MAX: Final = 16
"""So many rules that do not hold at a container, or do not count for it, are told."""
NAMES_SHOWN: Final = 4
_TOGETHER: Final = "in one "
_OWNER: Final = "its owner "
_OWNERS: Final = "its owners "
_AND_MORE: Final = re.compile(r" and ([0-9]{1,9}) more\Z")


class Restriction(Struct, frozen=True, kw_only=True):
    """A required rule of the newcomer, or of a resident about it. Sets of cpus are masks."""

    text: str
    owner: str
    """The path of the container whose rule it is."""
    owner_id: ContainerId
    is_own: bool = True
    can_break: bool
    """Whether it gives way where it cannot be met."""
    is_lasting: bool = False
    """Whether it is required during execution, too."""
    spread: SpreadCounts | None = None
    """The containers it counts, where it keeps the newcomer from domains that hold too many."""
    wanted: str
    """A place where it holds, for people."""
    forbidden: int = 0
    choices: tuple[int, ...] = ()
    """Domains of which the newcomer must be in exactly one; empty where any cpus left will do."""
    closed_pools: frozenset[int] = frozenset()
    names_pool: bool = False
    """Whether it names the one pool that is not closed: no change of labels can end it."""
    blockers: tuple[Container, ...] = ()
    """The containers that stand in the way."""
    blocker_names: str = ""
    """Their names, where they are at hand."""
    level: Level = Level.SYSTEM
    """The level at which they do, or of the domains of which it must be in one."""

    @property
    def name(self) -> str:
        """The rule and its owner, if it has one, for people."""
        return f"{self.text} of {self.owner}" if self.owner else self.text

    @property
    def breaches(self) -> frozenset[Breach]:
        """The rule broken beside each of the containers that stand in the way."""
        return frozenset([Breach(self.is_own, self.text, one.path) for one in self.blockers])

    @property
    def reason(self) -> str:
        """The reason why the rule is broken where it is."""
        blockers = self.blocker_names or names_text(self.blockers)
        if not blockers:
            return f"it wants {self.wanted}"
        if not self.is_own:
            # Whoever is told of somebody's rule is itself whom that one must not be with.
            blockers = f"{_OWNERS if len(self.blockers) > 1 else _OWNER}{blockers}"
        return together_text(self.level, blockers)

    @property
    def unmet_text(self) -> str:
        """The rule, its owner and the reason, of a placement that breaks it."""
        return f"{self.name}: {self.reason}"

    def is_told_by(self, text: str) -> bool:
        """Whether a text tells that the rule is unmet, whatever the reason."""
        return text.startswith(f"{self.name}: ")

    def is_told(self, texts: Sequence[str]) -> bool:
        """Whether one of some texts tells that the rule is unmet."""
        # Worded once: there may be many of both.
        beginning = f"{self.name}: " if texts else ""
        return any([text.startswith(beginning) for text in texts])

    def beside(self, blockers: Sequence[Container]) -> "Restriction":
        """The restriction where only these of the blockers are near; with all where none is."""
        is_other = blockers and blockers is not self.blockers
        return replace(self, blockers=tuple(blockers), blocker_names="") if is_other else self

    def of(self, owner: Container) -> "Restriction":
        """The rule of one of its owners alone, who keeps others away himself."""
        path = owner.path
        return replace(
            self,
            owner=path,
            owner_id=owner.id,
            blockers=(owner,),
            blocker_names=path,
            wanted=f"{a_level(self.level)} without {path}",
        )

    def is_broken_by(self, cpus: int, pool_id: int) -> bool:
        """Whether a place on these cpus of this pool breaks the rule."""
        if pool_id in self.closed_pools or cpus & self.forbidden:
            return True
        for domain in self.choices:
            if cpus & domain:
                # Domains have nothing in common: it is in another one, too, or in no other.
                return bool(cpus & ~domain)
        return bool(self.choices and cpus)

    def dropped(self) -> Dropped:
        """The objection of the rule to a pool."""
        return Dropped(self.name, self.wanted, "none")


def told_once(rules: Iterable[Restriction]) -> tuple[str, ...]:
    """The texts of broken rules, one for each: others may break it inside a pen and outside.

    Two about nobody in the way, as of spread with other least numbers of domains, are both told.
    """
    found: dict[str, Restriction] = {}
    for one in rules:
        found[one.unmet_text] = one
    names = {text.rpartition(": ")[0] for text in found}
    if len(names) < len(found):
        by_name: dict[str, Restriction] = {}
        for one in found.values():
            name = one.name if one.blockers else one.unmet_text
            first = by_name.setdefault(name, one)
            blockers = {other.id: other for other in (*first.blockers, *one.blockers)}
            by_name[name] = first.beside(tuple(blockers.values()))
        return tuple([one.unmet_text for one in by_name.values()])
    return tuple(found)


def by_kind(rules: Iterable[Restriction]) -> Sequence[Sequence[Restriction]]:
    """Rules of several owners that say the same together, in the order of the first of each."""
    found: dict[tuple[object, ...], dict[str, Restriction]] = {}
    for one in rules:
        # Of those about a newcomer each wants another place: one without its owner.
        wanted = one.wanted if one.is_own else ""
        kind = (one.text, one.is_own, one.can_break, one.level, wanted)
        found.setdefault(kind, {}).setdefault(one.name, one)
    return [tuple(some.values()) for some in found.values()]


def owners_text(rules: Sequence[Restriction]) -> str:
    """The first owner of rules that say the same, and how many others have it, for people."""
    return f"{rules[0].owner}{others_text(len(rules) - 1)}"


def others_text(count: int) -> str:
    """Number of owners of a rule that are not named, for people; empty for none."""
    return f" and {count} other{'s' if count > 1 else ''}" if count else ""


def kind_name(rules: Sequence[Restriction]) -> str:
    """Rules that say the same by their one name, with their owners if they have any."""
    return f"{rules[0].text} of {owners_text(rules)}" if rules[0].owner else rules[0].text


def kind_wanted(rules: Sequence[Restriction]) -> str:
    """A place where rules that say the same hold, for people."""
    if len(rules) == 1 or rules[0].is_own:
        return rules[0].wanted
    blockers = {one.id: one for rule in rules for one in rule.blockers}
    return f"{a_level(rules[0].level)} without {names_text(tuple(blockers.values()))}"


def wants_text(
    rules: Iterable[Restriction], more: int = 0, told: Sequence[Restriction] = ()
) -> str:
    """The first of some rules, and what they want, for people; empty without any.

    A rule of several owners is told once. `more`: so many rules are not among them. `told`: rules
    that were told before, of which no place need be told again.
    """
    found = list[str]()
    for one in by_kind(rules):
        # Of several rules that a text has told nobody knows which one is meant.
        is_meant = not found and len({other.text for other in told}) == 1
        found.append(_wants_text(one, told, is_meant=is_meant))
    more += len(found[TOLD_MAX:])
    return "; ".join(found[:TOLD_MAX] + ([f"and {more} more rules"] if more else []))


def _wants_text(
    rules: Sequence[Restriction], told: Sequence[Restriction], *, is_meant: bool
) -> str:
    alike = [one for one in told if one.text == rules[0].text and one.is_own != rules[0].is_own]
    if any([ids_in_the_way([one]) == ids_in_the_way(rules) for one in alike]):
        owners = owners_text(rules)
        return f"the same rule of {owners}" if is_meant else f"{rules[0].text} of {owners}, too"
    return f"{kind_name(rules)}: wanted {kind_wanted(rules)}"


def in_the_way(rules: Iterable[Restriction]) -> Iterable[Sequence[Container]]:
    """The containers in the way of some rules, once where the same are in the way of several."""
    return {id(one.blockers): one.blockers for one in rules if one.blockers}.values()


def ids_in_the_way(rules: Iterable[Restriction]) -> set[ContainerId]:
    """The ids of all containers in the way of some rules."""
    return {other.id for some in in_the_way(rules) for other in some}


def together_text(level: Level, others: str) -> str:
    """The fault of a place where anti-affinity at a level does not hold."""
    return f"{_TOGETHER}{level_noun(level)} with {others}"


def told_rule(unmet_text: str) -> str:
    """The rule and its owner in an `unmet_text`: the reason differs from day to day."""
    return unmet_text.rpartition(": ")[0]


def told_reason(unmet_text: str) -> str:
    """The reason in an `unmet_text`, without the rule."""
    return unmet_text.rpartition(": ")[2]


def is_about_others(unmet_text: str) -> bool:
    """Whether a text tells of a rule that others stand in the way of."""
    return told_reason(unmet_text).startswith(_TOGETHER)


def names_text(containers: Sequence[Container], shown_max: int = NAMES_SHOWN) -> str:
    """The names of the first of some containers, and how many more there are."""
    shown = ", ".join([one.path for one in containers[:shown_max]])
    more = len(containers) - shown_max
    return f"{shown} and {more} more" if more > 0 else shown


def with_one_named(text: str, path: str, *, is_new: bool) -> str | None:
    """A text of an unmet rule with one more container that breaks it; unchanged if it is named.

    None where it may be among those that are not named: as it is not `is_new`, or by its path.
    """
    reason = text.rpartition(": ")[2]
    if counted := _AND_MORE.search(text):
        # Where fewer are named, the last of them is called so. As a rule it is one more of a crowd.
        is_number = reason.count(", ") == NAMES_SHOWN - 1
        is_further = is_number and is_new and path not in text
        return f"{text[: counted.start()]} and {int(counted[1]) + 1} more" if is_further else None
    names, _ = named_in([reason])
    if path in names:
        return text
    return f"{text}, {path}" if len(names) < NAMES_SHOWN else f"{text} and 1 more"


def named_in(reasons: Iterable[str]) -> tuple[set[str], int]:
    """The names in texts of `together_text`, and how many more there are."""
    names, more = set[str](), 0
    for reason in reasons:
        shown = reason.partition(" with ")[2].removeprefix(_OWNER).removeprefix(_OWNERS)
        # Kubernetes allows no blanks in names; other clients of a runtime do.
        if counted := _AND_MORE.search(shown):
            shown = shown[: counted.start()]
            more += int(counted[1])
        names.update(shown.split(", "))
    return names, more

"""Texts of unmet rules, which stay as they were told for as long as they say the same."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ...model.container import ContainerId
from ..lineup import Lineup
from .restriction import Restriction, named_in, told_once, told_reason, told_rule

_NOT_FREE: Final = ", which was not free"


class ToldRules(Struct, frozen=True, kw_only=True):
    """The texts of unmet rules that containers told, of all that are remembered."""

    texts: Mapping[ContainerId, Sequence[str]] = field(
        default_factory=dict[ContainerId, Sequence[str]]
    )
    cut: Collection[ContainerId] = ()
    """Containers that told more than is remembered."""

    def go_on(self, rule: Restriction, container_id: ContainerId, *, is_fault: bool) -> bool:
        """Whether a container tells a broken rule from here on.

        `is_fault`: it is one to be told, if it was not yet. An owner that broke its rule as it came
        beside one that was there told it alone; of who is not remembered nobody knows who came
        first.
        """
        if rule.is_told(self.texts.get(container_id, ())):
            return True
        is_remembered = container_id in self.texts and container_id not in self.cut
        if is_fault and is_remembered and not rule.is_own:
            return not rule.is_told(self.texts.get(rule.owner_id, ()))
        return is_fault


NOTHING_TOLD = ToldRules()


def with_obstacle(rule: Restriction, lineup: Lineup) -> Restriction:
    """A broken rule that, if it is about pools, also wants people to know why none was free.

    That is told of the moment of the choice and of the widest of such pools, in the words of a
    refusal. O(pools) for such a rule.
    """
    if not rule.closed_pools:
        return rule
    meant = next((one for one in lineup.contest.ids[::-1] if one not in rule.closed_pools), None)
    obstacle = "" if meant is None else lineup.obstacle(meant)
    if meant is None or not obstacle:
        return rule
    if not rule.names_pool:
        obstacle = f"{lineup.names[meant]}: {obstacle}"
    return replace(rule, wanted=f"{rule.wanted}{_NOT_FREE} ({obstacle})")


def with_told_obstacles(
    broken: Sequence[Restriction], told: Sequence[str]
) -> Sequence[Restriction]:
    """Broken rules, where one about pools wants what was told of such a pool before.

    What was in the way once stays told: the rule ignores what happens afterwards.
    """
    found = {
        beginning: obstacle
        for beginning, marker, obstacle in [text.partition(_NOT_FREE) for text in told]
        if marker
    }
    if not found:
        return broken
    return [
        replace(one, wanted=f"{one.wanted}{_NOT_FREE}{found[one.unmet_text]}")
        if one.closed_pools and one.unmet_text in found
        else one
        for one in broken
    ]


def as_told(told: Sequence[str], broken: Iterable[Restriction]) -> tuple[str, ...]:
    """The texts of broken rules, each once: what was told already of one stays as it was told.

    Others may be named in another order by then. Where others than before are in the way, or were
    named each by himself, the rule is told anew in its place. O(texts).
    """
    broken = with_told_obstacles(tuple(broken), told)
    anew = told_once(broken)
    if not told or anew == told:
        # So it is as a rule.
        return anew
    rules: dict[str, list[Restriction]] = {}
    for one in broken:
        rules.setdefault(one.name, []).append(one)
    before: dict[str, list[str]] = {}
    for text in told:
        before.setdefault(told_rule(text), []).append(text)
    texts = {name: _texts(before.get(name, ()), some) for name, some in rules.items()}
    # Texts of one rule need not follow one another.
    found: dict[str, None] = {}
    for name, some in chain([(told_rule(text), (text,)) for text in told], texts.items()):
        left = texts.get(name, ())
        found.update(dict.fromkeys(some if {*some} <= {*left} else left))
    return tuple(found)


def joined(earlier: Sequence[str], found: Sequence[str]) -> tuple[str, ...]:
    """Texts that were told of rules, and those found since of rules of which nothing was told.

    Whether the earlier ones still hold is looked at once everybody is there.
    """
    told = set(map(told_rule, earlier))
    return (*earlier, *(text for text in found if told_rule(text) not in told))


def _texts(told: Sequence[str], rules: Sequence[Restriction]) -> Sequence[str]:
    """The texts of rules of one name, of which these were told."""
    anew = told_once(rules)
    is_once = 0 < len(told) <= len(anew)
    return told if is_once and _are_same(list(map(told_reason, told)), rules) else anew


def _are_same(reasons: Sequence[str], rules: Sequence[Restriction]) -> bool:
    """Whether the reasons that were told name those whom the rules would name."""
    if all([one.blockers for one in rules]):
        paths = {other.path for one in rules for other in one.blockers}
        names, more = named_in(reasons)
        return names <= paths and len(names) + more == len(paths)
    return _words(reasons) == _words([one.reason for one in rules])


def _words(reasons: Iterable[str]) -> set[str]:
    return {word.removesuffix(",") for reason in reasons for word in reason.split()}

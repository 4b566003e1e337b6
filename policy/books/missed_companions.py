"""Missed companions: required affinity of residents, told as unmet, that others could make hold.

The companion comes to the owner, where the owner does not get to the companion.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from ..configuration.affinity_fields import KubeCompat
from ..model.container import Container, ContainerId
from ..rules.podaffinity.rule_set import RequiredTerm
from .books import Books

UnmetOf = Callable[[ContainerId], Sequence[str]]
"""By container the rules that are told as unmet at it."""


class MissedCompanion(Struct, frozen=True, kw_only=True):
    """A rule of a resident that would hold if some containers came to it."""

    name: str
    """The rule and its owner, as they are told."""
    text: str
    """What is told."""
    domain: int
    """A mask of the cpus of the one domain in which the owner is."""

    def holds_beside(self, cpus: int) -> bool:
        """Whether the rule holds once one of the containers runs on these cpus."""
        return bool(self.domain & cpus)


def missed_companions(
    party: Mapping[ContainerId, Container], here: int, books: Books, unmet_of: UnmetOf
) -> Sequence[MissedCompanion]:
    """The rules about containers of a party, on these cpus, that are told as unmet at their owners.

    An owner in several domains is left out: nobody can come to all of its cpus.
    """
    return [one for one in _about(party, books, unmet_of) if not one.holds_beside(here)]


def _about(
    party: Mapping[ContainerId, Container], books: Books, unmet_of: UnmetOf
) -> Iterator[MissedCompanion]:
    domains, standing = books.domains, books.standing
    is_strict = books.config.kube_compat is KubeCompat.STRICT
    for container in party.values():
        for one in standing.matching(container):
            rule = one.rule
            if not isinstance(rule, RequiredTerm) or rule.is_anti:
                continue
            level = rule.term.level
            for owner_id, owner in one.owners.items():
                if owner_id in party or not (texts := unmet_of(owner_id)):
                    continue
                name = f"{rule.term.text} of {owner.path}"
                told = [text for text in texts if text.startswith(f"{name}: ")]
                indexes = domains.indexes(level, books.reach(owner_id)) if told else 0
                if indexes.bit_count() != 1:
                    continue
                if is_strict and not _is_about(owner, container, books):
                    continue
                domain = domains.members(level, indexes)
                yield MissedCompanion(name=name, text=told[0], domain=domain)


def _is_about(owner: Container, container: Container, books: Books) -> bool:
    """Whether all required affinity of an owner is about a container."""
    rules = books.standing.of(owner.id).required
    return all(one.is_anti or one.term.includes(owner, container) for one in rules)

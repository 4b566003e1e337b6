"""Unmet rules that were told before an adoption: they say what nobody need be told of anew."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from ...model.container import ContainerId
from .restriction import Restriction


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

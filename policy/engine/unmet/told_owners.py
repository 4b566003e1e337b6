"""Told owners: residents whose rules a newcomer breaks, and what their decisions tell of it."""

from collections.abc import Iterable, Sequence

from ...model.container import Container, ContainerId
from ...placing.judging.restriction import TOLD_MAX, Restriction, together_text, with_one_named
from ..decision import with_unmet
from ..roster import Roster
from .concerns import Concerns


def tell_of_newcomer(
    newcomer: Container, broken: Iterable[Restriction], roster: Roster, concerns: Concerns
) -> Sequence[ContainerId]:
    """The owners of broken rules whose texts may have to name others, once all of them are told.

    Each of its own rules, one text for each, however many break it.
    """
    owners: dict[ContainerId, list[Restriction]] = {}
    for one in broken:
        if not one.is_own:
            owners.setdefault(one.owner_id, []).append(one)
    unsure: list[ContainerId] = []
    for owner_id, rules in owners.items():
        decision = roster.decisions.get(owner_id)
        if decision is None:
            continue
        is_new = concerns.add_one(owner_id, newcomer.id)
        texts, is_sure = _with_one_more(decision.unmet, rules, newcomer.path, is_new=is_new)
        if not is_sure:
            unsure.append(owner_id)
        roster.decisions[owner_id] = with_unmet(decision, texts)
    return unsure


def _with_one_more(
    told: Sequence[str], rules: Iterable[Restriction], path: str, *, is_new: bool
) -> tuple[tuple[str, ...], bool]:
    """The texts told of an owner, of whose rules they tell that a container breaks them, too.

    And whether that is sure: else the owner has to be looked at. `path`: the container's. `is_new`:
    it stood in the owner's way in no rule before.
    """
    # They are many in a crowd: `told_rule` would be a call for each.
    texts = {text.rpartition(": ")[0]: text for text in told}
    is_sure = len(texts) == len(told)
    for one in rules:
        name, found = one.name, None
        if name in texts:
            found = with_one_named(texts[name], path, is_new=is_new)
        elif len(texts) < TOLD_MAX:
            found = f"{name}: {together_text(one.level, path)}"
        if found is None:
            is_sure = False
        else:
            texts[name] = found
    return tuple(texts.values()), is_sure

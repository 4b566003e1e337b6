"""Names of rules that are told as unmet, and the containers that are told to stand in the way."""

from collections.abc import Iterator, Mapping
from typing import Final

from ...model.container import ContainerId
from ...placing.judging.restriction import is_about_others, named_in, told_reason
from ..decision import Decision, unmet_rule_names
from ..engine import Engine

_LOOKS_MAX: Final = 16
"""Of very many owners the rest is looked at in later events, as the policy does it."""


def unmet_names(
    decisions: Mapping[ContainerId, Decision], placed: Mapping[ContainerId, object]
) -> Mapping[str, None]:
    """The rules with their owners that are told of those who are placed, each once.

    One rule may be told at both sides.
    """
    return unmet_rule_names(decisions[one] for one in placed)


def unmet_after(engine: Engine, container_id: ContainerId) -> Mapping[str, None]:
    """The rules that are told once all is looked at again that a move gave reason to."""
    for _ in range(_LOOKS_MAX):
        if not engine.compact(container_id):
            break
    return unmet_names(engine.decisions, engine.grants)


def in_the_way(engine: Engine, ids: Mapping[str, ContainerId]) -> Iterator[tuple[ContainerId, ...]]:
    """Containers without whom, or with one of whom, a rule would hold, as far as it names them.

    `ids`: of those that may be moved, by path. All of them together must go where a rule keeps
    apart, so there they are all that it is about; where it wants somebody near any of them may
    come.
    """
    texts = dict.fromkeys(text for one in engine.grants for text in engine.decisions[one].unmet)
    found: dict[tuple[ContainerId, ...], None] = {}
    for text in texts:
        paths, more = named_in([told_reason(text)])
        named = tuple(ids[path] for path in sorted(paths & ids.keys()))
        if not is_about_others(text):
            found.update(dict.fromkeys((one,) for one in named))
        elif named and not more and len(named) == len(paths):
            found[named] = None
    yield from found

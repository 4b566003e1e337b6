"""Errors of what people write for the policy: pod authors and operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...topology.sets.base_errors import PinfoldError

PROBLEMS_MAX: Final = 16
"""So many are told of one container."""

_CHARACTERS_MAX: Final = 600
"""Of each text of a problem: strangers' texts must not fill logs."""


class ConfigError(PinfoldError):
    """The operator's configuration cannot be used.

    `fields`: paths of what its lines are about, one for each, where that is known.
    """

    def __init__(self, text: str, fields: Sequence[tuple[str | int, ...]] = ()) -> None:
        super().__init__(text)
        self.fields = tuple(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A fault in what a pod's author wrote; it never stops the container by itself.

    `where` names the annotation and the container ("affinity.… of default/web/nginx"); `line` and
    `column` count from 1 inside the annotation's text, 0 where there is no position.
    """

    where: str
    what: str
    fix: str = ""
    line: int = 0
    column: int = 0
    is_fatal: bool = False
    """Whether the container is refused for it, as the annotation's meaning demands."""
    container: str = ""
    """The name of the only container of the pod it is about; empty where it is about all."""
    is_advice: bool = False
    """Whether nothing is written wrongly: then no container is ever refused for it."""

    def __post_init__(self) -> None:
        for name in ("where", "what", "fix"):
            text: str = getattr(self, name)
            if len(text) > _CHARACTERS_MAX:
                object.__setattr__(self, name, text[: _CHARACTERS_MAX - 3] + "...")

    def __str__(self) -> str:
        position = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.where}{position}: {self.what}" + (f" — {self.fix}" if self.fix else "")


def placed_text(place: str, message: str, *, is_advice: bool, excerpt: str = "") -> str:
    """A message about a place in a file as people and editors read it; the excerpt is below."""
    text = f"{place}: advice: {message}" if is_advice else f"{place}: {message}"
    return f"{text}\n{excerpt}" if excerpt else text


def position_text(source: str, line: int, column: int) -> str:
    """A place in a file as editors understand it; line and column are 0 where they are unknown."""
    return ":".join((source, *(str(one) for one in (line, column) if one)))


def first_problems(
    problems: Sequence[Problem], path: str, container: str, most: int = PROBLEMS_MAX
) -> tuple[Problem, ...]:
    """The gravest problems of a container called `path`, and how many others there are.

    Those that refuse it come first, then its own and its pod's, then others'; each in order.
    """
    if len(problems) <= most:
        return tuple(problems)
    order = sorted(
        problems,
        key=lambda one: (not one.is_fatal, one.container not in ("", container), one.is_advice),
    )
    what = f"and {len(problems) - most} more problems of its annotations"
    rest = Problem(where=path, what=what, fix="see 'pinfold lint' for all", is_advice=True)
    return (*order[:most], rest)

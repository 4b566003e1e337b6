"""Errors of what people write for the policy: pod authors and operators."""

from dataclasses import dataclass

from ..topology.errors import PinfoldError


class ConfigError(PinfoldError):
    """The operator's configuration cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong in what a pod's author wrote; it never stops the container by itself.

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

    def __str__(self) -> str:
        position = f":{self.line}:{self.column}" if self.line else ""
        return f"{self.where}{position}: {self.what}" + (f" — {self.fix}" if self.fix else "")

"""A weighted rule between containers, as it counts once it is read."""

from dataclasses import dataclass, field
from typing import Final

from ..model.container import Pod
from .expression import Condition, Expression, condition

MAX_WEIGHT: Final = 1000
OF_SAME_POD: Final = condition("pod/id", "Equals", "")
"""Stands for the pod where texts are read that many pods have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityRule:
    """Adds `weight` for every other container in `scope` that fulfils `match`."""

    scope: Expression
    match: Expression
    weight: int
    """From -MAX_WEIGHT to MAX_WEIGHT, never 0; a positive one pulls, a negative one pushes."""
    is_symmetric: bool = False
    """Whether it also counts when the other container is placed and this one is there already."""
    is_mutual: bool = field(default=False, compare=False)
    """Whether it is shorthand, which gives the other the same rule, where weights are symmetric."""
    source: str = field(default="", compare=False)
    """The annotation and line it comes from, for people."""


def same_pod(pod: Pod) -> Condition:
    """True for containers of this pod, not of another pod of the same name."""
    return condition("pod/id", "Equals", pod.id) if pod.id else OF_SAME_POD

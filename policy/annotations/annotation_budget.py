"""The budget of a pod's annotations: how many of them, and how much text, are read at all.

Anybody who may create a pod may write 256 KiB of annotations, in as many pieces as they like, and
every container's creation waits until they are read. What is beyond the budget is left out and
reported, the largest first; the rest counts. The limits are numbers, never times: the same pod is
always read in the same way.
"""

import heapq
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ..text.errors import Problem
from ..text.yaml_text import marks
from .annotation_keys import RESOURCES_KEY

ANNOTATIONS_MAX: Final = 256
CHARACTERS_MAX: Final = 64 * 1024
"""Of keys and values together."""
MARKS_MAX: Final = 2816
"""Signs between the values of all texts; see `yaml_text.marks`."""


class Admitted(Struct, frozen=True):
    """The annotations of a pod that are for us and within the budget, and those that are not."""

    annotations: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def admit(annotations: Mapping[str, str], pod_path: str, unread: int = 0) -> Admitted:
    """The annotations to be read, in the order of their keys; `pod_path` is for messages.

    `unread`: so many there are, and none of them was read.

    O(annotations). Applied again it changes nothing.
    """
    where = f"annotations of {pod_path}"
    if unread:
        what = f"{unread} annotations, of which none is read: too many may be for Pinfold"
        return Admitted({}, (Problem(where=where, what=what, fix="write fewer"),))
    # Of tens of thousands of keys each is looked at, without a call, and hardly any value.
    keys = [
        key
        for key in annotations
        if "resource-" in key or "pinfold" in key or "nri" in key or key == RESOURCES_KEY
    ]
    if not keys:
        return Admitted({})
    problems: list[Problem] = []
    if len(keys) > ANNOTATIONS_MAX:
        what = f"{len(keys)} annotations, of which {ANNOTATIONS_MAX} are read, in order"
        problems.append(Problem(where=where, what=what, fix="write fewer"))
    ours = {key: annotations[key] for key in _first(keys)}
    for sizes_of, limit, noun in (
        (_characters, CHARACTERS_MAX, "characters"),
        (_marks, MARKS_MAX, "signs between values"),
    ):
        for key, size in _beyond(sizes_of(ours), limit):
            del ours[key]
            what = f"left out for its {size} {noun}: a pod's annotations may have {limit} together"
            fix = "write fewer or shorter ones"
            problems.append(Problem(where=f"{key} of {pod_path}", what=what, fix=fix))
    return Admitted(ours, tuple(problems))


def _first(keys: list[str]) -> list[str]:
    # Of a set, whose order nobody can choose: falling keys would each be taken for a while.
    return (
        sorted(keys) if len(keys) <= ANNOTATIONS_MAX else heapq.nsmallest(ANNOTATIONS_MAX, {*keys})
    )


def is_ours(key: str) -> bool:
    """Whether an annotation is under our domains, or its name looks like it."""
    return "resource-" in key or "pinfold" in key or "nri" in key or key == RESOURCES_KEY


def _characters(ours: Mapping[str, str]) -> Mapping[str, int]:
    return {key: len(key) + len(text) for key, text in ours.items()}


def _marks(ours: Mapping[str, str]) -> Mapping[str, int]:
    # The JSON of resources is read by a parser that is many times as fast.
    return {key: marks(text) for key, text in ours.items() if key != RESOURCES_KEY}


def _beyond(sizes: Mapping[str, int], limit: int) -> list[tuple[str, int]]:
    """The largest entries without which the others are within the limit."""
    total = sum(sizes.values())
    found: list[tuple[str, int]] = []
    for key in sorted(sizes, key=lambda one: (-sizes[one], one)) if total > limit else ():
        if total <= limit:
            break
        total -= sizes[key]
        found.append((key, sizes[key]))
    return found

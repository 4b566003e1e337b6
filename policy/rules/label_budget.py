"""The budget of a pod's labels: how many of them rules can ask for.

Kubernetes bounds the length of a label and not their number: a pod may have tens of thousands, and
each of its containers is found by each of them.
"""

import heapq
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ..text.errors import Problem
from .container_facts import KUBELET_LABELS

LABELS_MAX: Final = 128
LABEL_CHARACTERS_MAX: Final = 512
"""Of key and value; Kubernetes allows 380."""


class AdmittedLabels(Struct, frozen=True):
    """The labels of a pod that count, and why others do not."""

    labels: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def admit_labels(labels: Mapping[str, str], pod_path: str, left_out: int = 0) -> AdmittedLabels:
    """The kubelet's labels and the first others in the order of their keys.

    O(labels), of which only those that count are looked at. Applied again it changes nothing.
    `left_out`: so many more there were.
    """
    count = len(labels) + left_out
    if count <= LABELS_MAX:
        # A message's map makes its keys without a call of Python, and its items by some.
        found = {
            key: one for key in labels if len(key) + len(one := labels[key]) <= LABEL_CHARACTERS_MAX
        }
        if len(found) == count:
            return AdmittedLabels(found)
    known = {key: labels[key] for key in KUBELET_LABELS if key in labels}
    for key in labels if count <= LABELS_MAX else heapq.nsmallest(LABELS_MAX, {*labels}):
        if len(known) < LABELS_MAX:
            known[key] = labels[key]
    found = {key: one for key, one in known.items() if len(key) + len(one) <= LABEL_CHARACTERS_MAX}
    what = f"{count} labels, of which {len(found)} count"
    fix = f"write at most {LABELS_MAX}, of {LABEL_CHARACTERS_MAX} characters each"
    where = f"labels of {pod_path}"
    return AdmittedLabels(found, (Problem(where=where, what=what, fix=fix, is_advice=True),))

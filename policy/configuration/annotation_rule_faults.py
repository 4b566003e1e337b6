"""Faults of the rules that give annotations, apart from the annotations themselves.

What is wrong with an annotation only its reader knows: see `CentralRules`.
"""

from collections.abc import Iterator

from ..text.yaml_document import Path
from .affinity_faults import pattern_faults, selector_faults
from .annotation_rule_fields import ContainerSelector
from .config import Config
from .shape import Fault, name_faults


def annotation_rule_faults(config: Config) -> Iterator[Fault]:
    """Faults of rules that give annotations."""
    names = [one.name for one in config.rules]
    for index, one in enumerate(config.rules):
        path: Path = ("rules", index)
        yield from name_faults(path, one.name, names[:index], "rule")
        if not one.annotations:
            yield Fault(path, "gives no annotations — write some, or leave the rule out")
        yield from _selector((*path, "match"), one.match)


def _selector(path: Path, selector: ContainerSelector) -> Iterator[Fault]:
    for field, patterns in (
        ("namespaces", selector.namespaces),
        ("pods", selector.pods),
        ("containers", selector.containers),
    ):
        for index, pattern in enumerate(patterns):
            yield from pattern_faults((*path, field, index), pattern)
    yield from selector_faults((*path, "labelSelector"), selector.label_selector)
    yield from selector_faults((*path, "containerLabelSelector"), selector.container_label_selector)

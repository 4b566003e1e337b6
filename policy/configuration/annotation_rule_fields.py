"""Fields of rules that give annotations: the containers that a rule is for, and what it gives."""

import enum
from collections.abc import Mapping

import msgspec

from ..model.container import QosClass
from .affinity_fields import LabelSelectorFields
from .section import Section


class ContainerSelector(Section, frozen=True, kw_only=True):
    """Containers, by all that is written of their names, labels and class; all where nothing is."""

    namespaces: tuple[str, ...] = ()
    """Globs, as of `pods` and `containers`: one of them fits; an empty list fits all."""
    pods: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    label_selector: LabelSelectorFields = LabelSelectorFields()
    """Of the labels of the pod."""
    container_label_selector: LabelSelectorFields = LabelSelectorFields()
    qos: tuple[QosClass, ...] = ()
    expression: Mapping[str, object] | None = None
    """In the language of the affinity annotation."""


class LoadLevel(enum.Enum):
    """The level at which containers of one load class disturb each other."""

    CORE = "core"
    L2 = "l2"
    L3 = "l3"


class LoadClass(Section, frozen=True, kw_only=True):
    """Containers that load the same part of a machine, such as its vector units or a cache."""

    name: str
    level: LoadLevel


class AnnotationRule(Section, frozen=True, kw_only=True):
    """Annotations that containers have as long as their pods do not say otherwise themselves."""

    name: str
    match: ContainerSelector = ContainerSelector()
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

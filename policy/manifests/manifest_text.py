"""Texts that may be manifests: the pods in them, or what else they are."""

from collections.abc import Iterator
from typing import Final

from ..configuration.config_text import API_VERSION
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextError, TextMap, TextNode, TextScalar
from ..text.yaml_text import Limits, parse_documents
from .workloads import Workload, find_workloads

MANIFEST_LIMITS: Final = Limits(
    characters=4 << 20, depth=64, nodes=200_000, documents=50_000, has_aliases=True
)
_GROUP: Final = API_VERSION.partition("/")[0]


def workloads_of(document: TextNode) -> Iterator[Workload]:
    """The workloads of a document that can be read."""
    for one in find_workloads(Field.of(document, "")):
        if isinstance(one, Workload):
            yield one


def has_pods(text: str) -> bool:
    """Whether a text describes pods at all. False for a text that cannot be read."""
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
        return any(True for document in documents for _ in workloads_of(document))
    except (TextError, FieldError):
        return False


def is_configuration(text: str) -> bool:
    """Whether a text looks like a configuration: one document without a kind, or of ours."""
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
    except TextError:
        return False
    if len(documents) != 1 or not isinstance(documents[0], TextMap):
        return False
    kind = documents[0].find("kind")
    if kind is None:
        return documents[0].find("scenarios") is None and not _lacks_kind(documents[0])
    return isinstance(kind, TextScalar) and kind.value == "TopologyAwarePolicy"


def _lacks_kind(document: TextMap) -> bool:
    """Whether a document without a kind is of another API than a configuration: a manifest."""
    version = document.find("apiVersion")
    group = version.value.partition("/")[0] if isinstance(version, TextScalar) else _GROUP
    return group != _GROUP

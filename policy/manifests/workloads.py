"""Kubernetes objects that describe pods: the kinds there are, and where their pod template is."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ...topology.sets.base_errors import quoted
from ..configuration.config_text import KIND as CONFIGURATION
from ..text.suggestion import nearest
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextList, TextMap, TextNode, TextScalar
from .made_up_names import with_names

MAX_OBJECTS: Final = 10_000
"""Objects in one document; aliases could otherwise multiply a small file without end."""

NO_KIND: Final = "no 'kind'"
"""What is wrong with a document of which nobody can tell what it describes."""


class PodTemplate(Struct, frozen=True, kw_only=True):
    """The place of the pod template in objects of a kind; the path of a pod itself is empty."""

    path: tuple[str, ...]
    counter: str = ""
    """Field beside the template that counts its pods on a node; empty where there is one."""
    makes_pods: bool = True


_IN_SPEC: Final = ("spec", "template")
TEMPLATES: Final[Mapping[str, PodTemplate]] = {
    "Pod": PodTemplate(path=()),
    "Deployment": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "StatefulSet": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "ReplicaSet": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "ReplicationController": PodTemplate(path=_IN_SPEC, counter="replicas"),
    "DaemonSet": PodTemplate(path=_IN_SPEC),
    "Job": PodTemplate(path=_IN_SPEC, counter="parallelism"),
    "CronJob": PodTemplate(path=("spec", "jobTemplate", *_IN_SPEC), counter="parallelism"),
    "PodTemplate": PodTemplate(path=("template",), makes_pods=False),
}


_OWN_GROUPS: Final = ("", "apps", "batch", "extensions")
"""The API groups that these kinds are, or were, in; operators have a Job of their own, too."""

_LIST: Final = "List"
_NEAR_KIND: Final = 0.85
"""How alike two kinds are of which one is meant for the other: nearer than OpenShift's Template."""

_OF_OTHERS: Final = PodTemplate(path=(), makes_pods=False)
"""A pod template of some operator's own kind: how many pods come of it the operator alone knows."""

Around = tuple[tuple[str, TextMap], ...]
"""The mappings around a pod template, the outer first, each with its key or that of its list."""


class Workload(Struct, frozen=True):
    """A pod template in an object; `node` is the object's mapping, with positions."""

    kind: str
    manifest: Field
    node: TextMap
    pod: TextNode | None
    """The template itself, which is the object where that is a pod."""
    around: Around = ()
    """What is between an object of an operator's own kind and the template; of others nothing."""
    group: str = ""
    """The API group of an operator's own kind; those of Kubernetes itself count as one."""

    @property
    def is_of_operator(self) -> bool:
        """Whether it is of an operator's own kind."""
        return bool(self.group) or self.kind not in TEMPLATES

    @property
    def full_kind(self) -> str:
        """The kind, with its API group where that is an operator's: "job", "job.batch.example"."""
        return ".".join(filter(None, (self.kind.lower(), self.group)))

    @property
    def template(self) -> PodTemplate:
        """The place of its pod template."""
        return _OF_OTHERS if self.is_of_operator else TEMPLATES[self.kind]


class ManifestObject(Struct, frozen=True):
    """An object of a manifest that is no list of others."""

    kind: str
    manifest: Field
    group: str = ""
    """Its API group; "" for those of Kubernetes itself."""


def find_workloads(document: Field) -> Iterator[Workload | FieldError]:
    """Workloads of a document in written order, see `find_objects`.

    An object of another kind is one for each pod template in it, and mostly for none; an object
    that is malformed, or of a kind that is a misspelt one of these, stands here as its error.
    Raises `FieldError` for more than `MAX_OBJECTS`.
    """
    for one in find_objects(document):
        if isinstance(one, FieldError):
            yield one
            continue
        kind, manifest, group = one.kind, one.manifest, one.group
        node = manifest.node
        if not isinstance(node, TextMap):
            continue
        if kind in TEMPLATES and not group:
            yield Workload(kind, manifest, node, follow(node, TEMPLATES[kind].path))
            continue
        for pod, around in _pods_inside(node):
            yield Workload(kind, manifest, node, with_names(pod, group), around, group)


def find_objects(document: Field) -> Iterator[ManifestObject | FieldError]:
    """Objects of a document in written order: itself, or the items of a List, nested ones too.

    One that is malformed stands here as its error. Raises `FieldError` for more than `MAX_OBJECTS`.
    """
    waiting = [(document, "", "")]
    visited = 0
    while waiting:
        one, listed_as, group_listed = waiting.pop()
        visited += 1
        if visited > MAX_OBJECTS:
            raise document.error(f"more than {MAX_OBJECTS} objects", "write several files")
        kind = _kind_of(one.node, listed_as)
        group = _group_of(one.node, group_listed)
        try:
            items = _items(one, kind, group)
        except FieldError as error:
            yield error
            continue
        waiting.extend((item, kind.removesuffix(_LIST), group) for item in reversed(items))
        if not items:
            yield ManifestObject(kind, one, group)


def _kind_of(node: TextNode | None, listed_as: str) -> str:
    """The kind that an object names, or that of its list: the API server leaves it out of items."""
    kind = node.find("kind") if isinstance(node, TextMap) else None
    if kind is None or (isinstance(kind, TextScalar) and kind.is_null):
        return listed_as
    return kind.value if isinstance(kind, TextScalar) else ""


def _group_of(node: TextNode | None, group_listed: str) -> str:
    """The API group of an object, or that of its list; "" for those of Kubernetes itself."""
    version = node.find("apiVersion") if isinstance(node, TextMap) else None
    group = version.value.rpartition("/")[0] if isinstance(version, TextScalar) else group_listed
    return "" if group in _OWN_GROUPS else group


def _pods_inside(node: TextMap) -> Iterator[tuple[TextMap, Around]]:
    """The pod templates anywhere inside an object, in written order, with what is around each."""
    # The object itself is none, whatever it has: operators' own kinds have parts of pods there.
    waiting = _inside(node, "", ())
    seen: set[int] = set()
    while waiting:
        key, one, around = waiting.pop()
        if id(one) in seen:
            # An alias.
            continue
        seen.add(id(one))
        containers = follow(one, ("spec", "containers"))
        if isinstance(one, TextMap) and isinstance(containers, TextList):
            yield one, around
        else:
            inner = (*around, (key, one)) if isinstance(one, TextMap) else around
            waiting.extend(_inside(one, key, inner))


def _inside(node: TextNode, key: str, around: Around) -> list[tuple[str, TextNode, Around]]:
    """The values of a mapping or a list, the last one first, with their keys and what is around."""
    if isinstance(node, TextMap):
        return [(name.value, value, around) for name, value in reversed(node.entries)]
    items = reversed(node.items) if isinstance(node, TextList) else ()
    return [(key, item, around) for item in items]


def follow(node: TextNode | None, path: tuple[str, ...]) -> TextNode | None:
    """The node at a path of fields inside another; None where there is none."""
    for step in path:
        node = node.find(step) if isinstance(node, TextMap) else None
    return node


def _items(one: Field, kind: str, group: str) -> tuple[Field, ...]:
    if one["kind"].is_missing and not kind:
        keys = one.node.entries if isinstance(one.node, TextMap) else ()
        for key, _ in keys:
            if key.value.strip().lower() == "kind":
                raise one[key.value].error("no manifest has such a field", "write 'kind'")
        raise one.error(NO_KIND, "a Kubernetes manifest begins with apiVersion and kind")
    # Raises where it is no text.
    one["kind"].text(kind)
    meant = _meant_kind(kind, group)
    if meant and not one["kind"].is_missing:
        what = f"{quoted(kind)} is no kind that an API server knows"
        raise one["kind"].error(what, f"did you mean {meant!r}?")
    return one["items"].elements() if kind.endswith(_LIST) else ()


@lru_cache(maxsize=256)
def _meant_kind(kind: str, group: str) -> str | None:
    """The kind, or the list of a kind, of which another one is a misspelling; mostly none."""
    stem = kind.removesuffix(_LIST)
    if stem in TEMPLATES or stem in ("", CONFIGURATION):
        return None
    meant = () if group else (*TEMPLATES, *((_LIST, f"Pod{_LIST}") if stem == kind else ()))
    near = nearest(stem, (*meant, CONFIGURATION), _NEAR_KIND)
    return near and near + kind[len(stem) :]

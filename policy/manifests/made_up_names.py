"""Names that Knative makes up for containers: its users may leave them out.

Source: Knative Serving, ConfigMap `config-defaults`, `container-name-template` and
`init-container-name-template`; of several containers each gets a number.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from ..text.yaml_nodes import TextList, TextMap, TextNode, TextScalar

_GROUP: Final = "serving.knative.dev"
_NAMES: Final[Mapping[str, str]] = {
    "containers": "user-container",
    "initContainers": "init-container",
}
_NAME: Final = "name"


def with_names(pod: TextMap, group: str) -> TextMap:
    """The template of a pod with the names that the operator of an API group makes up.

    They stand where their containers begin. A pod of another operator stays as it is.
    """
    spec = pod.find("spec")
    if group != _GROUP or not isinstance(spec, TextMap):
        return pod
    for field, name in _NAMES.items():
        containers = spec.find(field)
        if isinstance(containers, TextList):
            named = tuple(_named(containers.items, name))
            spec = _replaced(spec, field, containers._replace(items=named))
    return _replaced(pod, "spec", spec)


def _named(containers: tuple[TextNode, ...], name: str) -> Iterator[TextNode]:
    taken = {_name_of(one) for one in containers}
    numbered = (f"{name}-{number}" for number in count())
    for one in containers:
        if isinstance(one, TextMap) and one.find(_NAME) is None:
            made_up = name
            if len(containers) > 1:
                made_up = next(each for each in numbered if each not in taken)
            entry = TextScalar(_NAME, one.mark), TextScalar(made_up, one.mark)
            yield one._replace(entries=(entry, *one.entries))
        else:
            yield one


def _name_of(container: TextNode) -> str:
    name = container.find(_NAME) if isinstance(container, TextMap) else None
    return name.value if isinstance(name, TextScalar) else ""


def _replaced(node: TextMap, field: str, value: TextNode) -> TextMap:
    entries = ((key, value if key.value == field else old) for key, old in node.entries)
    return node._replace(entries=tuple(entries))

"""Places in a file of what problems of a pod are about: its annotations, texts in them, names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..annotations.annotations import effective
from ..text.errors import Problem
from ..text.written_scalar import WrittenScalar
from ..text.yaml_nodes import TextMap, TextNode, TextScalar


class FilePlace(NamedTuple):
    """A line and a column in a file, from 1, 0 where they are not known."""

    line: int
    column: int
    is_exact: bool = True
    """False where the problem is about a place inside the text that begins here."""


class PodPlaces:
    """Places of the annotations and the container names of one pod."""

    def __init__(
        self,
        pod: TextNode,
        annotations: TextNode | None,
        names: Iterable[TextScalar],
        path: str,
        lines: Sequence[str],
    ) -> None:
        """`pod` stands for what has no place of its own; `path`: its NAMESPACE/NAME."""
        self._pod = pod
        self._lines = lines
        self._containers = {f"{path}/{one.value}": one for one in names}
        entries = annotations.entries if isinstance(annotations, TextMap) else ()
        self._annotations = {
            key.value: (key, value) for key, value in entries if isinstance(value, TextScalar)
        }
        self._written: dict[str, WrittenScalar] = {}

    def find(self, problem: Problem, annotations: Mapping[str, str]) -> FilePlace:
        """The place of a problem of the pod, which has these annotations."""
        name = _annotation_of(problem, annotations)
        if name not in self._annotations:
            owner = problem.where.partition(" of ")[2] or problem.where
            # Behind a comma stands the central rule that gave the annotation.
            place = self._containers.get(owner.partition(", ")[0], self._pod)
            return FilePlace(place.line, place.column)
        key, value = self._annotations[name]
        if not problem.line:
            return FilePlace(key.line, key.column)
        if name not in self._written:
            self._written[name] = WrittenScalar(value, self._lines)
        found = self._written[name].find(problem.line, problem.column)
        return FilePlace(*found) if found else FilePlace(value.line, value.column, is_exact=False)


def distinct(problems: Iterable[Problem], annotations: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of a pod, each once: a setting of the whole pod is wrong for all alike."""
    seen: set[tuple[str, str, int, int]] = set()
    for problem in problems:
        annotation = _annotation_of(problem, annotations)
        identity = (annotation, problem.what, problem.line, problem.column)
        if identity not in seen:
            seen.add(identity)
            yield problem


def _annotation_of(problem: Problem, annotations: Mapping[str, str]) -> str:
    """The annotation a problem is in, or the container it is about."""
    annotation, _, owner = problem.where.partition(" of ")
    if annotation in annotations:
        return annotation
    setting = effective(annotations, annotation, owner.rpartition("/")[2])
    return annotation if setting is None else setting.key

"""What is saved of the pods of a node: all of their placement, and of their texts what has room."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ...policy.engine.adoption import Advice
from ...policy.model.container import Container, ContainerId, Pod, PodId
from .saved_container import SavedContainer, SavedPod, bare_pod, saved_container, saved_pod

TEXT_BYTES_MAX: Final = 4 << 20
"""Of annotations, labels, tags and hints of all pods. Strangers write them, up to 250 KB in a pod;
the grants, for which the file is there, are small and saved always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read of a pod; `saved` is None where its texts had no room."""

    pod: Pod
    saved: SavedPod | None
    characters: int
    """Of labels and annotations: the fewest bytes they take."""


class SavedPods:
    """Makes the pods to be saved; what it read of a pod is kept for the next time.

    The pods with the shortest texts have theirs saved: hardly any pod on an ordinary node is cut.
    """

    def __init__(self, text_bytes_max: int = TEXT_BYTES_MAX) -> None:
        self._text_bytes_max = text_bytes_max
        self._read: dict[PodId, _Read] = {}

    def collect(
        self, running: Iterable[Container], advice: Mapping[ContainerId, Advice]
    ) -> tuple[SavedPod, ...]:
        """The pods of these containers by id, each once. O(containers + length of new texts)."""
        groups: dict[PodId, list[Container]] = {}
        for one in sorted(running, key=lambda one: one.id):
            groups.setdefault(one.pod.id, []).append(one)
        read = {pod_id: self._look(group[0].pod) for pod_id, group in groups.items()}
        sizes = {
            pod_id: read[pod_id].characters + sum(map(_characters, group))
            for pod_id, group in groups.items()
        }
        room = self._text_bytes_max
        found: list[SavedPod] = []
        for pod_id in sorted(groups, key=lambda pod_id: (sizes[pod_id], pod_id)):
            known, group = read[pod_id], groups[pod_id]
            bare = bare_pod(known.pod, tuple(_bare(each, advice[each.id]) for each in group))
            taken = bare
            # A character takes one to six bytes: they are counted only where they may fit at all.
            if sizes[pod_id] <= room:
                saved = known.saved or saved_pod(known.pod)
                containers = tuple(saved_container(each, advice[each.id]) for each in group)
                whole = msgspec.structs.replace(saved, containers=containers)
                room -= len(msgspec.json.encode(whole)) - len(msgspec.json.encode(bare))
                taken = whole if room >= 0 else bare
            read[pod_id] = _Read(
                pod=known.pod,
                saved=None if taken is bare else msgspec.structs.replace(taken, containers=()),
                characters=known.characters,
            )
            found.append(taken)
        self._read = read
        return tuple(sorted(found, key=lambda one: one.id))

    def _look(self, pod: Pod) -> _Read:
        """Thousands of annotations are looked at once, not whenever something is saved."""
        known = self._read.get(pod.id)
        if known is not None and known.pod is pod:
            return known
        saved = saved_pod(pod)
        characters = _length(saved.labels) + _length(saved.annotations)
        return _Read(pod=pod, saved=saved, characters=characters)


def _bare(container: Container, advice: Advice) -> SavedContainer:
    saved = saved_container(container, advice)
    return msgspec.structs.replace(saved, labels={}, tags={}, hints=())


def _characters(container: Container) -> int:
    hints = sum(len(one.provider) + len(one.path) + len(one.device) for one in container.hints)
    return _length(container.labels) + _length(container.tags) + hints


def _length(texts: Mapping[str, str]) -> int:
    return sum(map(len, texts)) + sum(map(len, texts.values()))

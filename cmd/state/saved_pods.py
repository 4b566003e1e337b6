"""Saved pods of a node: the placement of all, and the texts of those for which there is room."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ...nri.dispatch.pacer import ALONE, Pacer
from ...policy.model.container import Container, ContainerId, PodId
from .saved_container import (
    PlacedContainer,
    SavedContainer,
    SavedPod,
    bare_pod,
    saved_again,
    saved_container,
    saved_pod,
)

TEXT_BYTES_MAX: Final = 4 << 20
"""Of annotations, labels, tags and hints of all pods. Strangers write them, up to 250 KB in a pod;
the grants, for which the file is there, are small and saved always."""

_CHARACTER_BYTES: Final = 12
"""The most that a character of a label takes: six as an escape, and six for quotes, colon and comma
where it is all of the key of an empty value."""
_BESIDE_TEXTS_BYTES: Final = 128
"""More than the names of the fields take that a pod, or a container, has for its texts."""


class _Look(Struct, kw_only=True):
    """A pod with its containers as last looked at, and its saved form where it is made."""

    placed: list[PlacedContainer]
    texts: SavedPod | None
    """The pod without its containers; None where its texts had no room."""
    pod_characters: int
    characters: int
    """Of labels, annotations, tags and hints: the fewest bytes they take."""
    text_bytes_max: int | None = None
    """The most bytes the texts take; None where nobody had to know."""
    whole_bytes: int | None = None
    """What the pod with its texts takes; None where nobody had to know."""
    text_bytes: int | None = None
    """What the texts take; None where nobody had to know."""
    saved: SavedPod | None = None
    """With all of the containers' present placement, or yet to be made."""
    last_placed: Sequence[PlacedContainer] = ()
    last_saved: Sequence[SavedContainer] = ()
    """The containers when they were last saved with their texts, and how: of most of those that
    are not as they were, the cpus alone are others."""


class SavedPods:
    """Makes the pods to be saved; one of which nothing changed is the same object the next time.

    The pods with the shortest texts have theirs saved: hardly any pod on an ordinary node is cut.
    """

    def __init__(self, text_bytes_max: int = TEXT_BYTES_MAX) -> None:
        self._text_bytes_max = text_bytes_max
        self._known: dict[PodId, _Look] = {}
        self._pods: dict[ContainerId, PodId] = {}
        """By container the pod in which it was seen."""

    def follow(
        self,
        changed: Iterable[PlacedContainer],
        gone: Iterable[ContainerId],
        pacer: Pacer = ALONE,
    ) -> tuple[SavedPod, ...]:
        """The pods of all containers by id, each once.

        `changed`: those that are new, or otherwise than before; `gone`: those that are no more.
        O(pods + length of new texts).
        """
        groups: dict[PodId, dict[ContainerId, PlacedContainer]] = {}
        for container_id in gone:
            self._take_out(groups, container_id)
        for one in changed:
            container_id, pod_id = one.container.id, one.container.pod.id
            self._take_out(groups, container_id)
            self._pods[container_id] = pod_id
            self._group(groups, pod_id)[container_id] = one
        for pod_id, group in pacer.among(groups.items()):
            if group:
                self._known[pod_id] = self._look(pod_id, [group[one] for one in sorted(group)])
            else:
                self._known.pop(pod_id, None)
        known = self._known
        if self._is_room_ample(pacer):
            for look in pacer.among([one for one in known.values() if one.saved is None]):
                _saved(look, is_cut=False)
            return tuple([_saved(known[one], is_cut=False) for one in sorted(known)])
        room = self._text_bytes_max
        found: list[SavedPod] = []
        for pod_id in sorted(known, key=lambda pod_id: (known[pod_id].characters, pod_id)):
            pacer.rest()
            look = known[pod_id]
            # A character takes one to six bytes: they are counted only where they may fit at all.
            has_room = look.characters <= room
            if has_room:
                room -= _text_bytes(look)
                has_room = room >= 0
            found.append(_saved(look, is_cut=not has_room))
        return tuple(sorted(found, key=lambda one: one.id))

    def _group(
        self, groups: dict[PodId, dict[ContainerId, PlacedContainer]], pod_id: PodId
    ) -> dict[ContainerId, PlacedContainer]:
        """The containers of a pod, those that were seen before first."""
        if pod_id not in groups:
            look = self._known.get(pod_id)
            groups[pod_id] = {one.container.id: one for one in look.placed} if look else {}
        return groups[pod_id]

    def _take_out(
        self, groups: dict[PodId, dict[ContainerId, PlacedContainer]], container_id: ContainerId
    ) -> None:
        """Take a container out of the pod in which it was seen."""
        pod_id = self._pods.pop(container_id, None)
        if pod_id is not None:
            self._group(groups, pod_id).pop(container_id, None)

    def _is_room_ample(self, pacer: Pacer) -> bool:
        """Whether there is room for all texts with all that is beside them.

        So it is on an ordinary node, and nobody has to know what the texts alone take.
        """
        room = self._text_bytes_max
        if sum([one.characters for one in self._known.values()]) > room:
            return False
        if sum(map(_text_bytes_max, self._known.values())) <= room:
            return True
        for look in pacer.among([o for o in self._known.values() if o.whole_bytes is None]):
            look.whole_bytes = len(msgspec.json.encode(_saved(look, is_cut=False)))
        return sum([one.whole_bytes or 0 for one in self._known.values()]) <= room

    def _look(self, pod_id: PodId, placed: list[PlacedContainer]) -> _Look:
        """Thousands of annotations are looked at once, not whenever something is saved."""
        pod = placed[0].container.pod
        known = self._known.get(pod_id)
        last_placed: Sequence[PlacedContainer] = ()
        last_saved: Sequence[SavedContainer] = ()
        if known is None or known.placed[0].container.pod is not pod:
            fresh = saved_pod(pod)
            pod_characters = _length(fresh.labels) + _length(fresh.annotations)
            texts: SavedPod | None = fresh
        elif _are_same_containers(known.placed, placed):
            if not all(map(_is_same_placement, known.placed, placed)):
                known.placed, known.saved = placed, None
                known.text_bytes_max = known.whole_bytes = known.text_bytes = None
            return known
        else:
            texts, pod_characters = known.texts, known.pod_characters
            last_placed, last_saved = known.last_placed, known.last_saved
        texts_of_all = [_characters(one.container, pod.labels) for one in placed]
        characters = pod_characters + sum(texts_of_all)
        return _Look(
            placed=placed,
            texts=texts,
            pod_characters=pod_characters,
            characters=characters,
            last_placed=last_placed,
            last_saved=last_saved,
        )


def _text_bytes_max(look: _Look) -> int:
    """The most bytes that the texts can take, known without making JSON of most pods."""
    if look.text_bytes_max is None:
        if any(one.unmet or one.container.hints for one in look.placed):
            # Sets of cpus are among them, whose characters nobody has counted.
            look.whole_bytes = len(msgspec.json.encode(_saved(look, is_cut=False)))
            look.text_bytes_max = look.whole_bytes
        else:
            beside = _BESIDE_TEXTS_BYTES * (1 + len(look.placed))
            look.text_bytes_max = _CHARACTER_BYTES * look.characters + beside
    return look.text_bytes_max


def _text_bytes(look: _Look) -> int:
    """The bytes that the texts take; the pod as it is saved with them is at hand then."""
    if look.text_bytes is None:
        whole = len(msgspec.json.encode(_saved(look, is_cut=False)))
        look.text_bytes = whole - len(msgspec.json.encode(_bare(look)))
    return look.text_bytes


def _saved(look: _Look, *, is_cut: bool) -> SavedPod:
    """The pod as it is saved, with its texts or without; the one from before where that is it."""
    saved = look.saved
    if saved is None or saved.is_cut is not is_cut:
        saved = look.saved = _bare(look) if is_cut else _whole(look)
    if is_cut:
        look.texts = None
    return saved


def _whole(look: _Look) -> SavedPod:
    pod = look.placed[0].container.pod
    look.texts = look.texts or saved_pod(pod)
    pairs = zip(look.last_placed, look.last_saved, strict=True)
    last = {one.container.id: (one, saved) for one, saved in pairs}
    containers: list[SavedContainer] = []
    for one in look.placed:
        before = last.get(one.container.id)
        again = None if before is None else saved_again(one, *before)
        containers.append(again or saved_container(one, with_texts=True, labels=pod.labels))
    saved = msgspec.structs.replace(look.texts, containers=tuple(containers))
    look.last_placed, look.last_saved = look.placed, saved.containers
    return saved


def _bare(look: _Look) -> SavedPod:
    containers = tuple(saved_container(one, with_texts=False) for one in look.placed)
    return bare_pod(look.placed[0].container.pod, containers)


def _are_same_containers(before: list[PlacedContainer], after: list[PlacedContainer]) -> bool:
    return len(before) == len(after) and all(
        one.container is other.container for one, other in zip(before, after, strict=True)
    )


def _is_same_placement(one: PlacedContainer, other: PlacedContainer) -> bool:
    return (
        one.grant is other.grant
        and one.pool is other.pool
        and (one.cpus, one.mems, one.unmet) == (other.cpus, other.mems, other.unmet)
        and one.pod_size == other.pod_size
        and (one.beside, one.is_unpinned) == (other.beside, other.is_unpinned)
    )


def _characters(container: Container, labels: Mapping[str, str]) -> int:
    """The characters of a container's texts; `labels`: saved with its pod."""
    first = container.pod.labels_at_first_sight
    more = _length(first) if first is not labels and first != labels else 0
    hints = sum(len(one.provider) + len(one.path) + len(one.device) for one in container.hints)
    return _length(container.labels) + _length(container.tags) + hints + more


def _length(texts: Mapping[str, str]) -> int:
    return sum(map(len, texts)) + sum(map(len, texts.values()))

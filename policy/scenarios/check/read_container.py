"""Containers of a pod that is checked, each with what its annotations say by themselves."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ...annotations.annotation_values import ALL_HINTS, HintSource, is_resource
from ...annotations.annotations import effective
from ...annotations.preferences import Preferences, parse_preferences
from ...hints.hint_text import annotated_hints
from ...model.container import Container, QosClass
from ...pens.pen_name import PenName, is_outside, pen_by_numbers, wished_pen
from ...pens.pen_slices import (
    slice_size,
    unheeded_cold_start,
    unheeded_whole_cpus,
    unheeded_wish,
)
from ...placing.classifier import Classified, Classifier
from ...text.errors import Problem

_WITH_RESOURCES: Final = "agent.podResourceAPI: true"


class ReadContainer(Struct, frozen=True, kw_only=True):
    """A container as the classifier reads it, and the pen that it will be in."""

    container: Container
    classified: Classified
    preferences: Preferences
    pen: PenName | None
    """Once all of its pod run."""

    @classmethod
    def of(
        cls, container: Container, classifier: Classifier, lasting: Sequence[Container]
    ) -> "ReadContainer":
        """The reading of a container. `lasting`: those of its pod that run at the same time."""
        preferences = parse_preferences(container)
        return cls(
            container=container,
            classified=classifier.classify(container),
            preferences=preferences,
            pen=_pen_of(container, preferences, lasting),
        )

    @property
    def is_loose(self) -> bool:
        """Whether neither a pen nor a weight of its own says where it should be."""
        return self.pen is None and not self.classified.rules

    def problems(self, *, asks_kubelet: bool) -> Iterator[Problem]:
        """Problems of its annotations alone.

        `asks_kubelet`: whether nodes know which of the kubelet's devices it has.
        """
        yield from self.classified.problems
        # They count on few nodes alone; what is wrong in them is wrong on all.
        yield from annotated_hints(self.container)[1]
        if not asks_kubelet:
            yield from self._idle_hints()
        if self.pen is None:
            return
        if self.preferences.cold_start_ns:
            yield unheeded_cold_start(self.container, is_group=self.pen.is_group)
        yield from self._shared_cpus(self.pen)

    def _idle_hints(self) -> Iterator[Problem]:
        """Wishes about devices of the kubelet, which a node does not ask for."""
        preferences, container = self.preferences, self.container
        names_them = HintSource.POD_RESOURCES in preferences.hint_sources != ALL_HINTS
        for key, is_set in (
            ("topologyhints", names_them),
            ("pick-resources-by-hints", preferences.pick_by_hints),
            ("near-device", is_resource(preferences.near_device or "")),
        ):
            setting = effective(container.pod.annotations, key, container.name)
            if setting is None or not is_set:
                continue
            yield Problem(
                where=f"{setting.key} of {container.path}",
                what="the kubelet's devices count only where the node's configuration has them on",
                fix=f"configure {_WITH_RESOURCES!r} there",
                is_advice=True,
            )

    def _shared_cpus(self, pen: PenName) -> Iterator[Problem]:
        """What a container that would have cpus for itself does not get in its pen."""
        container, whole = self.container, self.container.pod.resources
        milli = 0 if whole is None else whole.cpu_request_milli
        is_own = container.pod.qos is QosClass.GUARANTEED and not milli % 1000
        if is_own and slice_size(pen, container, self.classified, whole):
            return
        problem = unheeded_wish(container, is_group=pen.is_group)
        if problem is not None:
            yield problem
        elif self.classified.request.exclusive and milli % 1000 and not pen.is_group:
            yield unheeded_whole_cpus(container, milli)


def _pen_of(
    container: Container, preferences: Preferences, lasting: Sequence[Container]
) -> PenName | None:
    """The pen that a container is in once all of its pod run: those are the `lasting` ones."""
    wished = wished_pen(container, preferences)
    if wished is not None or container not in lasting:
        return wished
    others = [one for one in lasting if one is not container and not is_outside(one)]
    return pen_by_numbers(container, others, container.pod.resources)

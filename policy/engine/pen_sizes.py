"""Sizes of pens: what the containers of one come to, or the size of their pod."""

from collections.abc import Sequence

from msgspec import structs
from msgspec.structs import replace

from ..books.books import Books
from ..model.container import Container, QosClass, Resources
from ..model.grant import Grant
from ..model.request import CpuType, Isolation, Request
from ..pens.pen_name import PenName
from ..pens.pod_numbers import enlarged, together, with_pages
from ..placing.classifier import Classifier
from ..placing.wishes.own_cpus import without_own_cpus
from .roster import Roster


class PenSizes:
    """The sizes of pods, as far as they are known, and what their pens ask for."""

    def __init__(self, books: Books, roster: Roster, classifier: Classifier) -> None:
        """Reads the books, and notes sizes in the roster."""
        self._books = books
        self._roster = roster
        self.classifier = classifier

    def request_of(
        self, name: PenName, container: Container, members: Sequence[Container] = ()
    ) -> Request:
        """The request of a container's pen, the container itself in it.

        It has what the container's annotations wish for. `members`: all of the pen's containers,
        where the pen is not there yet.
        """
        size = self._demand(name, container, members)
        return pen_request(name, structs.replace(container, resources=size), self.classifier)

    def changed_request(self, name: PenName, pen: Grant, container: Container) -> Request | None:
        """The request of a pen that follows its containers, or their pages; None where it stays."""
        if self.is_counted(name, container):
            return self.request_of(name, container)
        held = self._books.memory.request_of(pen.container_id)
        if held is None or not (container.resources.hugepage_bytes or held.hugepage_bytes):
            return None
        request = self.request_of(name, container)
        if request.hugepage_bytes == held.hugepage_bytes:
            return None
        return structs.replace(request, exclusive=len(pen.exclusive), shared_milli=pen.shared_milli)

    def is_counted(self, name: PenName, container: Container) -> bool:
        """Whether a pen is as large as its containers together."""
        return name.is_group or self._roster.size_of(container.pod) is None

    def residents(self, container: Container) -> Sequence[Container]:
        """The other containers of a pod that hold something, outside any pen."""
        return self._roster.placed_beside(container, self._books.ledger.grants)

    def note_resized(self, container: Container) -> None:
        """A container with a place of its own was resized: its pod has at least the new sum.

        The runtime goes on telling the size that the pod had at its creation.
        """
        self.note_sum((*self.residents(container), container))

    def note_sum(self, containers: Sequence[Container]) -> None:
        """Containers of a pod without a pen have all that they seem to ask for: so has the pod."""
        container = containers[-1]
        size = self._roster.size_of(container.pod)
        if size is not None and (larger := enlarged(size, together(containers))) is not None:
            self._roster.note_size(container.pod, larger)

    def _demand(self, name: PenName, container: Container, given: Sequence[Container]) -> Resources:
        size = None if name.is_group else self._roster.size_of(container.pod)
        if not given:
            members = self._books.ledger.members(name.id)
            others = [self._roster.containers[one] for one in members if one != container.id]
            given = (*others, container)
        return together(given) if size is None else with_pages(size, given)


def pen_request(name: PenName, container: Container, classifier: Classifier) -> Request:
    """The request of a pen: what a container asks for that has the resources of the whole pen."""
    # What one container wants for itself is no wish of the pen.
    container = without_own_cpus(container)
    if name.is_group:
        # Half a cpu of a Guaranteed container is a cpu of the group's own.
        size = container.resources
        milli = -(-size.cpu_request_milli // 1000) * 1000
        container = replace(container, resources=replace(size, cpu_request_milli=milli))
        if container.pod.qos is QosClass.BEST_EFFORT and (milli or size.memory_request_bytes):
            # It asks for nothing itself; others in its group do.
            container = replace(container, pod=replace(container.pod, qos=QosClass.BURSTABLE))
    request = classifier.classify(container).request
    if request.exclusive and request.shared_milli:
        request = request.as_shared()
    return replace(
        request.as_warm(),
        container_id=name.id,
        cpu_type=CpuType.NORMAL,
        isolation=Isolation.NO,
        fallback=None,
        # Whose memory is to be left alone is not told any; what the pen has is for all.
        preserve_memory=False,
    )

"""Near memory: what running containers ask for that have to leave their cpus."""

from typing import Final

from msgspec.structs import replace

from ....topology.sets.cpuset import NodeSet
from ...hints.hint_place import resolve
from ...model.container import Container
from ...model.hint import Hint, HintOrigin
from ...model.request import Request
from ...placing.classifier import Classified
from ..allocator import Allocator

_PROVIDER: Final = "its memory"


def near_memory(container: Container, allocator: Allocator) -> Classified:
    """Demand of a known container for cpus near the memory nodes that it is restricted to.

    Its pages stay where they are then, and need not be copied. Hints of its own alone count where
    it has some, and memory on all nodes says nothing.
    """
    classified, machine = allocator.roster.classified[container.id], allocator.books.machine
    nodes = container.mems
    everywhere = NodeSet.collect(one.id for one in machine.numa_nodes if one.memory_bytes != 0)
    if not nodes or everywhere <= nodes or classified.request.hints:
        return classified
    hint = Hint(provider=_PROVIDER, origin=HintOrigin.MEMORY, numa_nodes=nodes & everywhere)
    near, _ = resolve(hint, machine, container.path)
    if near is None:
        return classified
    return replace(classified, request=_with_hint(classified.request, near))


def _with_hint(request: Request, hint: Hint) -> Request:
    """The request with a hint, for whatever it falls back to as well."""
    less = request.fallback
    return replace(
        request, hints=(hint,), fallback=None if less is None else _with_hint(less, hint)
    )

"""Near memory: what running containers ask for that have to leave their cpus."""

from typing import Final

from msgspec.structs import replace

from ....topology.sets.cpuset import NO_CPUS, NodeSet
from ...hints.hint_place import resolve
from ...model.container import Container
from ...model.hint import Hint, HintOrigin
from ...placing.classifier import Classified
from ..allocator import Allocator

_PROVIDER: Final = "its memory"
_AROUND: Final = "the sockets of its memory"


def near_memory(container: Container, allocator: Allocator) -> Classified:
    """What a known container asks for: cpus near the memory nodes that it is restricted to.

    Else in their sockets. Its pages stay where they are, or have to be copied. Hints of its own
    alone count where it has some, and memory on all nodes says nothing.
    """
    classified, machine = allocator.roster.classified[container.id], allocator.machine
    nodes = container.mems
    everywhere = NodeSet.collect(one.id for one in machine.numa_nodes if one.memory_bytes != 0)
    if not nodes or everywhere <= nodes or classified.request.hints:
        return classified
    hint = Hint(provider=_PROVIDER, origin=HintOrigin.MEMORY, numa_nodes=nodes & everywhere)
    near, _ = resolve(hint, machine, container.path)
    if near is None:
        return classified
    around = NO_CPUS
    for socket in machine.sockets:
        around |= socket.cpus if socket.cpus & near.cpus else NO_CPUS
    wide = Hint(provider=_AROUND, origin=HintOrigin.MEMORY, cpus=around)
    return replace(classified, request=replace(classified.request, hints=(near, wide)))

"""Faults of sets of memory nodes, whatever the machine."""

from collections.abc import Generator, Iterator

from ...topology.sets.cpuset import NO_CPUS, NO_NODES
from ..text.quantity import ByteQuantity, MemoryAmount, OnlyCpus, OnlyNodes, QuantityError
from ..text.yaml_document import Path
from .config import Amounts, Config
from .shape import Fault


def memory_faults(config: Config) -> Iterator[Fault]:
    """The faults of `availableResources.memory` and `reservedResources.memory`."""
    available = yield from _amount("availableResources", config.available_resources)
    reserved = yield from _amount("reservedResources", config.reserved_resources)
    path: Path = ("reservedResources", "memory")
    needs: tuple[Path, ...] = (("availableResources", "memory"),)
    if isinstance(available, ByteQuantity) and isinstance(reserved, ByteQuantity):
        # What is available counts what is reserved of it.
        if 0 < available.size_bytes <= reserved.size_bytes:
            yield Fault(
                path,
                f"{config.reserved_resources.memory} leaves nothing of availableResources.memory"
                f" ({config.available_resources.memory}) — reserve less",
                needs,
            )
        return
    if not isinstance(available, OnlyNodes) or not isinstance(reserved, OnlyNodes):
        return
    if outside := reserved.nodes - available.nodes:
        yield Fault(
            path,
            f"nodes {outside} are not in availableResources.memory ({available.nodes})"
            " — reserve available nodes",
            needs,
        )
    elif reserved.nodes == available.nodes:
        yield Fault(path, "leaves no memory for other containers — reserve fewer nodes", needs)


def _amount(section: str, amounts: Amounts) -> Generator[Fault, None, MemoryAmount | None]:
    path: Path = (section, "memory")
    try:
        amount = amounts.memory_amount
    except QuantityError as error:
        yield Fault(path, str(error))
        return None
    if amount in (OnlyNodes(NO_NODES), OnlyCpus(NO_CPUS)):
        what = "nodes" if isinstance(amount, OnlyNodes) else "cpus"
        yield Fault(path, f"no {what} at all — name at least one")
        return None
    return amount

"""A machine as one JSON document, for other tools: a contract that stays as it is."""

from collections.abc import Mapping

from ..model.machine import Machine


def machine_document(machine: Machine) -> Mapping[str, object]:
    """The document as plain values; cpu lists in the kernel's format, groups by lowest cpu."""
    return {
        "online_cpus": str(machine.online),
        "sockets": {socket.label: str(socket.cpus) for socket in machine.sockets},
        "dies": {die.label: str(die.cpus) for die in machine.dies},
        "numa_nodes": {
            str(node.id): {"cpus": str(node.cpus), "memory_bytes": node.memory_bytes}
            for node in machine.numa_nodes
        },
        "l3_groups": [str(group) for group in machine.l3_groups],
        "l2_groups": [str(group) for group in machine.l2_groups],
        "cores": [str(core) for core in machine.cores],
        "threads_per_core_max": machine.threads_per_core_max,
        "distances": [list(row) for row in machine.distances],
        "isolated": str(machine.isolated),
        "warnings": list(machine.warnings),
    }

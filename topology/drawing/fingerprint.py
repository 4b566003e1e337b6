"""Fingerprint of a machine: a hash of its shape, without what changes from boot to boot."""

import hashlib
import json

from ..model.machine import Machine
from .machine_json import machine_document


def machine_fingerprint(machine: Machine) -> str:
    """A hash of the cpus that are online, how they are grouped, and the distances of nodes.

    Sizes of memory are left out: every kernel keeps another bit of it for itself.
    """
    document = {**machine_document(machine)}
    del document["warnings"]
    document["numa_nodes"] = {
        str(node.id): [str(node.cpus), node.kind.value] for node in machine.numa_nodes
    }
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def machine_summary(machine: Machine) -> str:
    """The machine in a few words: "cpus 0-7, sockets: 2, NUMA nodes: 2"."""
    sockets, nodes = len(machine.sockets), len(machine.numa_nodes)
    return f"cpus {machine.online}, sockets: {sockets}, NUMA nodes: {nodes}"

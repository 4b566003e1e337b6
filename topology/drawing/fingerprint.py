"""Fingerprint of a machine: a checksum of its shape, without what changes from boot to boot."""

import json
import zlib

from ..model.machine import Machine
from .machine_json import machine_document


def machine_fingerprint(machine: Machine) -> str:
    """A checksum of the cpus that are online, how they are grouped, and the distances of nodes.

    Sizes of memory are left out: every kernel keeps another bit of it for itself. It need not
    withstand anybody: hashlib would load OpenSSL into each daemon, three megabytes.
    """
    document = {**machine_document(machine)}
    del document["warnings"]
    document["numa_nodes"] = {
        str(node.id): [str(node.cpus), node.kind.value] for node in machine.numa_nodes
    }
    text = json.dumps(document, sort_keys=True)
    return f"{zlib.crc32(text.encode()):08x}"


def machine_summary(machine: Machine) -> str:
    """The machine in a few words: "cpus 0-7, sockets: 2, NUMA nodes: 2"."""
    sockets, nodes = len(machine.sockets), len(machine.numa_nodes)
    return f"cpus {machine.online}, sockets: {sockets}, NUMA nodes: {nodes}"

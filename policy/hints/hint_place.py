"""The place a hint means on this machine: the online cpus and NUMA nodes near its provider."""

from dataclasses import replace

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet
from ..model.hint import Hint
from ..text.errors import Problem


def resolve(hint: Hint, machine: Machine, where: str) -> tuple[Hint | None, tuple[Problem, ...]]:
    """The hint in things of the machine, and what it names that is not there.

    Its cpus are the hint's own online ones, else those of its NUMA nodes, else those of its
    sockets; None where that leaves no cpu. A NUMA node without cpus stands for itself and for the
    nearest nodes that have some. Nothing is ever an error: firmware and kernels tell odd things.
    """
    problems: list[Problem] = []
    cpus = hint.cpus & machine.online
    if hint.cpus and not cpus:
        what = f"none of cpus {hint.cpus} is online"
        problems.append(Problem(where=where, what=what, fix=f"cpus are {machine.online}"))
    known = NodeSet.collect(machine.node_by_id) & hint.numa_nodes
    if known != hint.numa_nodes:
        what = f"there is no NUMA node {hint.numa_nodes - known}"
        fix = f"NUMA nodes are {NodeSet.collect(machine.node_by_id)}"
        problems.append(Problem(where=where, what=what, fix=fix))
    near = _with_nearest_cpus(known, machine)
    of_socket = {socket.label: socket.cpus for socket in machine.sockets}
    missing = [str(one) for one in hint.sockets if str(one) not in of_socket]
    if missing:
        what, fix = f"there is no socket {','.join(missing)}", f"sockets are {','.join(of_socket)}"
        problems.append(Problem(where=where, what=what, fix=fix))
    cpus = cpus or _cpus_of_nodes(near, machine)
    for socket in () if cpus else hint.sockets:
        cpus |= of_socket.get(str(socket), NO_CPUS)
    if not cpus:
        return None, tuple(problems)
    sockets = tuple(one for one in hint.sockets if str(one) in of_socket)
    return replace(hint, cpus=cpus, numa_nodes=near, sockets=sockets), tuple(problems)


def _with_nearest_cpus(nodes: NodeSet, machine: Machine) -> NodeSet:
    """The nodes, and for each without cpus the nearest nodes that have some."""
    found, with_cpus = nodes, machine.nodes_with_cpus
    for node_id in nodes:
        if node_id not in with_cpus:
            found |= machine.numa_distances.nearest(NodeSet.of(node_id), with_cpus)
    return found


def _cpus_of_nodes(nodes: NodeSet, machine: Machine) -> CpuSet:
    cpus = NO_CPUS
    for node_id in nodes:
        cpus |= machine.node_by_id[node_id].cpus
    return cpus

"""Conflicts about cpusets with other parts of a node: kubelet, runc, other plugins.

Each is a sentence for operators that says what to do.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet, IdSet
from ..text.errors import Problem

KUBELET_FOLDER: Final = "/var/lib/kubelet"
CPU_STATE: Final = "cpu_manager_state"
MEMORY_STATE: Final = "memory_manager_state"
RUNC_CPUS_MAX: Final = 1024
"""Source: containers/nri-plugins issues 599 and 604."""
_IDLE: Final = "none"
_NO_POLICY: Final[Mapping[str, str]] = {"CPU": "none", "memory": "None"}


class KubeletManagers(Struct, frozen=True):
    """The policies of the kubelet's managers; empty where one has none, or nobody can tell."""

    cpu: str = ""
    memory: str = ""

    @classmethod
    def of(cls, cpu: str, memory: str) -> "KubeletManagers":
        """The managers with these policies, of which the one called none sets nothing."""
        return cls(*("" if one.lower() == _IDLE else one for one in (cpu, memory)))

    @property
    def pins_cpus(self) -> bool:
        """Whether cpusets of new containers may be the kubelet's."""
        return bool(self.cpu)

    def warnings(self) -> Iterator[str]:
        """Sentences that name each manager, and what to do."""
        for name, policy, field, file in (
            ("CPU", self.cpu, "cpuManagerPolicy", CPU_STATE),
            ("memory", self.memory, "memoryManagerPolicy", MEMORY_STATE),
        ):
            if policy:
                none = _NO_POLICY[name]
                yield (
                    f"the kubelet's {name} manager has the policy {policy!r} and places containers,"
                    f" too: it is overruled, and its updates are undone — drain the node, write"
                    f" '{field}: {none}' in the kubelet's configuration, delete"
                    f" {KUBELET_FOLDER}/{file} and restart the kubelet"
                )


NO_MANAGERS: Final = KubeletManagers()


def runc_warning(machine: Machine) -> str | None:
    """The sentence about cpus that runc cannot put into a cpuset; None where it can."""
    beyond = CpuSet.collect(cpu for cpu in machine.online if cpu >= RUNC_CPUS_MAX)
    if not beyond:
        return None
    return (
        f"cpus {beyond}: runc refuses cpusets with cpus above {RUNC_CPUS_MAX - 1}, and containers"
        " on them are not created — use crun, or keep these cpus out with"
        f" 'availableResources: {{cpu: exclude-cpuset:{beyond}}}'"
    )


def system_partition_problem(pod: str) -> Problem:
    """The problem of a pod, given by its path, that the kubelet runs in its system partition."""
    return Problem(
        where=pod,
        what=(
            "the kubelet runs it in its system partition, with cpus of its own that Pinfold does"
            " not know"
        ),
        fix=(
            "name these cpus in 'reservedResources.cpu', and its namespace in"
            " 'reservedPoolNamespaces'"
        ),
        is_advice=True,
    )


def foreign_pin_problem(container: str, cpus: CpuSet, *, has_claims: bool) -> Problem:
    """The problem of a container, given by its path, that another NRI plugin has placed.

    `has_claims`: whether drivers claim cpus on the node, so that it may be one of these.
    """
    which = "dra-driver-cpu, it seems" if has_claims else "balloons or koordlet, say"
    return Problem(
        where=container,
        what=f"another NRI plugin ({which}) gave it cpus {cpus}, so it is left alone with them",
        fix="let one plugin place containers: stop the other on this node",
    )


def manager_overruled(manager: str, where: str, ids: IdSet) -> str:
    """The sentence about a manager of the kubelet (`CPU`, `memory`) that placed a container too.

    `ids`: of the cpus, or of the NUMA nodes, that it gave.
    """
    noun = "cpus" if manager == "CPU" else "NUMA nodes"
    return (
        f"the kubelet's {manager} manager gave {where} {noun} {ids}, and is overruled"
        f" — write '{manager.lower()}ManagerPolicy: {_NO_POLICY[manager]}' in the kubelet's"
        " configuration"
    )


def driver_beside(driver: str, where: str, claim: str) -> str:
    """The sentence about a driver that gave a container cpus by a claim."""
    return (
        f"the driver {driver!r} gave {where} cpus by the claim {claim}; they are taken"
        " — keep its cpus and Pinfold's apart, with availableResources.cpu"
    )

"""Conflicts about cpusets with other parts of a node: the kubelet's own managers, and runc.

The managers are seen by the state files that they keep; one whose policy is none (None) writes its
file, too, and sets nothing. Source: pkg/kubelet/cm/cpumanager/state, memorymanager/state.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import CpuSet

KUBELET_FOLDER: Final = Path("/var/lib/kubelet")
RUNC_CPUS_MAX: Final = 1024
"""Source: containers/nri-plugins issues 599 and 604."""
_STATE_BYTES_MAX: Final = 4 << 20
_IDLE: Final = "none"


class KubeletManagers(Struct, frozen=True):
    """The policies of the kubelet's managers; empty where one has none, or nobody can tell."""

    cpu: str = ""
    memory: str = ""

    @property
    def pins_cpus(self) -> bool:
        """Whether cpusets of new containers may be the kubelet's."""
        return bool(self.cpu)

    def warnings(self) -> Iterator[str]:
        """Sentences that name each manager, and what to do."""
        for name, policy, field, file in (
            ("CPU", self.cpu, "cpuManagerPolicy", "cpu_manager_state"),
            ("memory", self.memory, "memoryManagerPolicy", "memory_manager_state"),
        ):
            if policy:
                none = "none" if name == "CPU" else "None"
                yield (
                    f"the kubelet's {name} manager has the policy {policy!r} and places containers,"
                    f" too: it is overruled, and its updates are undone — drain the node, write"
                    f" '{field}: {none}' in the kubelet's configuration, delete"
                    f" {KUBELET_FOLDER / file} and restart the kubelet"
                )


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


def read_managers(folder: Path = KUBELET_FOLDER) -> KubeletManagers:
    """The kubelet's managers by the files in its folder. Never raises."""
    return KubeletManagers(
        cpu=_policy(folder / "cpu_manager_state"), memory=_policy(folder / "memory_manager_state")
    )


def _policy(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_STATE_BYTES_MAX)
        state: object = json.loads(content)
    except (OSError, ValueError):
        # Not here, or not to be read, or half written: a kubelet that cannot read it stops itself.
        return ""
    if not isinstance(state, Mapping):
        return ""
    policy = cast("Mapping[str, object]", state).get("policyName")
    return policy if isinstance(policy, str) and policy.lower() != _IDLE else ""

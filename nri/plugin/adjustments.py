"""Adjustments of new containers: what is decided of them, as far as a runtime can do it."""

from typing import Final

from ...policy.configuration.config import SchedulingClass
from ...topology.sets.cpuset import NodeSet
from ..api import nri_pb2
from ..dispatch.answer import Answer
from ..dispatch.report import Report, Unsupported
from .messages import adjustment_message
from .runtime_versions import RuntimeAbilities

_ANY_RUNTIME: Final = "the runtime"
_NO_QUOTA: Final = -1


class Adjustments:
    """The adjustments that one runtime is sent; what it cannot do is left out, and told once."""

    def __init__(self, report: Report) -> None:
        self.abilities: RuntimeAbilities | None = None
        """Abilities of the runtime; None until it has told what it is."""
        self.runtime = ""
        """Its name and version, as it told them."""
        self._report = report
        self._unscheduled: set[str] = set()
        """The names of the scheduling classes of which it is told that they are left out."""
        self._is_interleaving_told = False

    def of(self, answer: Answer) -> nri_pb2.ContainerAdjustment | None:
        """The adjustment that an answer means for its own container; None where it has none."""
        adjustment = None
        if answer.own is not None:
            adjustment = adjustment_message(answer.own, self._scheduling(answer), answer.classes)
        if answer.lifts_quota or answer.interleaved is not None:
            adjustment = adjustment or nri_pb2.ContainerAdjustment()
            if answer.lifts_quota:
                lift_quota(adjustment.linux.resources)
            if answer.interleaved is not None and self._has_memory_policy():
                _add_interleaving(adjustment.linux, answer.interleaved)
        return adjustment

    def _scheduling(self, answer: Answer) -> SchedulingClass | None:
        """The scheduling class of a new container; None also where the runtime cannot set one."""
        chosen = answer.scheduling
        if chosen is None or (self.abilities is not None and self.abilities.can_schedule):
            return chosen
        if chosen.name not in self._unscheduled:
            self._unscheduled.add(chosen.name)
            self._report(
                Unsupported(
                    f"scheduling class {chosen.name!r}: {self.runtime or _ANY_RUNTIME} cannot set"
                    " how processes are scheduled, so its containers run without — use a runtime"
                    " with NRI 0.11 or newer"
                )
            )
        return None

    def _has_memory_policy(self) -> bool:
        """Whether the runtime sets memory policies; where it does not, that is told."""
        if self.abilities is not None and self.abilities.has_memory_policy:
            return True
        if not self._is_interleaving_told:
            self._is_interleaving_told = True
            self._report(
                Unsupported(
                    f"memory.pinfold.dev: {self.runtime or _ANY_RUNTIME} cannot set how memory is"
                    " interleaved, so containers have all their memory nodes and the kernel takes"
                    " the nearest with room first — use a runtime with NRI 0.12 or newer"
                )
            )
        return False


def lift_quota(resources: nri_pb2.LinuxResources) -> None:
    """Let a container use all the time of its cpus; the kernel takes -1 for no quota."""
    resources.cpu.quota.value = _NO_QUOTA


def _add_interleaving(linux: nri_pb2.LinuxContainerAdjustment, nodes: NodeSet) -> None:
    """Have the processes of a new container take their pages from memory nodes in turn.

    The kernel keeps the policy within the container's memory nodes when those change, as no flag
    fixes it (set_mempolicy(2)).
    """
    linux.memory_policy.mode = nri_pb2.MPOL_INTERLEAVE
    linux.memory_policy.nodes = str(nodes)

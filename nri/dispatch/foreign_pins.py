"""Cpusets of new containers that others set before us: another NRI plugin, or the kubelet."""

from msgspec import structs

from ...policy.model.cpuset_conflicts import foreign_pin_problem
from ...topology.sets.cpuset import NO_CPUS
from .newcomer import Newcomer


class ForeignPins:
    """Lets containers alone whose cpus another plugin has set.

    Two NRI plugins that set the cpus of one container keep it from being created. The kubelet may
    be overruled: its cpus are part of what the runtime was asked for.
    """

    def __init__(self) -> None:
        self.kubelet_pins = False
        """Whether the kubelet's own CPU manager sets cpus."""
        self._has_claims = False

    def looked_at(self, newcomer: Newcomer) -> Newcomer:
        """The container, to be left alone where somebody else places it."""
        container = newcomer.container
        if container.claimed is not None:
            self._has_claims = True
            return newcomer
        if container.cpus is None or self.kubelet_pins:
            return newcomer
        problem = foreign_pin_problem(container.path, container.cpus, has_claims=self._has_claims)
        alone = structs.replace(container, claimed=NO_CPUS)
        return structs.replace(newcomer, container=alone, problems=(*newcomer.problems, problem))

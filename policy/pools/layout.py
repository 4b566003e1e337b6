"""The layout of a machine under a configuration: what its books are ruled by, and never change."""

from collections.abc import Callable
from functools import cache, partial

from msgspec import Struct

from ...topology.model.machine import Machine
from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..configuration.config import Config
from ..cpus.picker import CpuPicker
from .domains import Domains
from .pool_tree import PoolTree
from .supply import Supply, read_supply
from .tree_building import build_tree


class MachineLayout(Struct, frozen=True, kw_only=True, eq=False):
    """The supply, the pools and the picker of cpus, which several engines can share."""

    picker: CpuPicker
    supply: Supply
    tree: PoolTree
    domains: Callable[[], Domains]
    """The domains at which rules between containers hold; made for the first such rule."""

    @classmethod
    def of(cls, machine: Machine, config: Config, kept: CpuSet = NO_CPUS) -> "MachineLayout":
        """Raises `ConfigError` where the configuration does not fit the machine.

        `kept`: cpus that were reserved before; see `read_supply`.
        """
        picker = CpuPicker(machine)
        supply = read_supply(machine, config, picker, kept)
        tree = build_tree(machine, supply)
        domains = cache(partial(Domains, machine, supply.allowed))
        return cls(picker=picker, supply=supply, tree=tree, domains=domains)

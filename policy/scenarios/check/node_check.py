"""Checks of pods on one machine: the pools that their rules ask for, and whether there is room."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce

from ....topology.model.machine import Machine
from ...configuration.config import Config
from ...engine.engine import Engine
from ...manifests.pod_spec import PodSpec
from ...model.container import Container, ContainerId
from ...model.request import Request
from ...pools.pool_labels import pool_labels
from ...rules.podaffinity.rule_text import placement_rules
from ...rules.review.pool_review import (
    reach_of,
    reviewed_absences,
    reviewed_labels,
    reviewed_pools,
    reviewed_spreads,
)
from ...text.errors import Problem
from .eligible_domains import EligibleDomains
from .lone_pod import lone_problems


class NodeCheck:
    """Checks pods on a machine, each as if it were alone there."""

    def __init__(self, machine: Machine, config: Config | None) -> None:
        """`config`: that of the nodes, if known. Raises `ConfigError` where it does not fit."""
        self._machine = machine
        self._is_nodes = config is not None
        self._engine = Engine(machine, config or Config())

    @cached_property
    def eligible(self) -> EligibleDomains:
        """The domains of the machine's levels."""
        return EligibleDomains(self._machine, self._engine.supply)

    def reach(
        self,
        containers: Sequence[Container],
        requests: Mapping[ContainerId, Request],
        config: Config,
    ) -> int:
        """A mask of the cpus on which some containers may be, by what they ask for and by rules."""
        cpus = self.eligible.cpus([requests[one.id] for one in containers])
        rules = [placement_rules(container, config)[0] for container in containers]
        if not any(one.pool_required or one.pool_name for one in rules):
            return cpus
        tree = self._engine_with(config).tree
        labels = pool_labels(tree, self._machine, config)
        return cpus & reduce(int.__or__, [reach_of(one, tree, labels) for one in rules])

    def problems(
        self,
        spec: PodSpec,
        containers: Sequence[Container],
        requests: Mapping[ContainerId, Request],
        config: Config,
    ) -> Iterator[Problem]:
        """Rules about pools that the machine does not have, and refusals there.

        `containers`: those of the specification, in its order; `requests`: of all of them.
        """
        idle = list(self._idle_pools(containers, requests, config))
        yield from idle
        yield from lone_problems(spec, containers, self._engine_with(config), idle)

    def _idle_pools(
        self,
        containers: Sequence[Container],
        requests: Mapping[ContainerId, Request],
        config: Config,
    ) -> Iterator[Problem]:
        """Rules about pools that the machine does not have."""
        rules = [placement_rules(container, config)[0] for container in containers]
        if not any(one.pool_required or one.pool_preferred or one.pool_name for one in rules):
            return
        tree = self._engine_with(config).tree
        labels = pool_labels(tree, self._machine, config)
        yield from reviewed_pools(containers, config, tree, labels)
        yield from reviewed_labels(containers, config, is_nodes=self._is_nodes, labels=labels)
        yield from reviewed_absences(containers, config, labels)
        cpus = {one: self.eligible.cpus((asked,)) for one, asked in requests.items()}
        masks = self.eligible.domains.masks
        yield from reviewed_spreads(containers, config, tree, labels, masks, cpus)

    def _engine_with(self, config: Config) -> Engine:
        """An empty node; the one of the pod before where the configuration is the same."""
        if self._engine.config != config:
            self._engine = Engine(self._machine, config)
        return self._engine

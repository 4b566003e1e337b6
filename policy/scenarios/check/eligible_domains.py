"""Eligible domains: those of a machine in which containers may ever be, as the engine counts."""

from collections.abc import Iterable, Sequence
from functools import reduce

from ....topology.model.machine import Level, Machine
from ...configuration.config import Config
from ...manifests.rules_between_pods import DomainCount
from ...model.container import Container, ContainerId
from ...model.request import Request
from ...placing.classifier import Classifier
from ...pools.domains import Domains
from ...pools.supply import Supply


class EligibleDomains:
    """The domains of a machine's levels, and the cpus there that requests may ever be granted."""

    def __init__(self, machine: Machine, supply: Supply) -> None:
        self._machine = machine
        self._supply = supply
        self.domains = Domains(machine, supply.allowed)
        self._classifier: tuple[Config, Classifier] | None = None
        self._eligible: dict[ContainerId, int] = {}

    def cpus(self, requests: Iterable[Request]) -> int:
        """A mask of the cpus that some of these requests may ever be granted; all without any."""
        eligible = [self._supply.eligible(one).mask for one in requests]
        return reduce(int.__or__, eligible) if eligible else -1

    def count(self, config: Config, level: Level, containers: Sequence[Container]) -> DomainCount:
        """The number of domains of a level in which some containers may be."""
        masks, cpus = self.domains.masks(level), 0
        for one in containers:
            cpus |= self._cpus_of(one, config)
        number = sum([bool(mask & cpus) for mask in masks])
        return DomainCount(number, len(masks), self.domains.stand_in(level))

    def _cpus_of(self, container: Container, config: Config) -> int:
        if self._classifier is None or self._classifier[0] is not config:
            self._classifier = config, Classifier(config, machine=self._machine)
            self._eligible = {}
        known = self._eligible.get(container.id)
        if known is None:
            request = self._classifier[1].classify(container).request
            known = self._eligible[container.id] = self.cpus((request,))
        return known

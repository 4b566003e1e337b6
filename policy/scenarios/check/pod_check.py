"""Checks of pods before they are created: problems of their classification, and refusals.

The classifier and the engine are those of the daemon, so that what passes here is not refused there
for its annotations. What only a node knows (its interrupts, the devices near to something) is not
looked at.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from ....topology.model.machine import Machine
from ...configuration.config import Config
from ...manifests.finding import Finding
from ...manifests.pod_spec import PodSpec
from ...manifests.pod_template import pod_of
from ...manifests.reviewed_pod import ReviewedPod
from ...manifests.rules_between_pods import rules_between
from ...manifests.written_pod import WrittenPod
from ...model.container import Container
from ...placing.classifier import Classifier
from ...placing.wishes.idle_wishes import idle_wishes
from ...rules.central_rules import CentralRules, naming_rules
from ...rules.podaffinity.rule_text import placement_rules
from ...rules.review.mate_review import reviewed_counts, reviewed_footprint, reviewed_mates
from ...rules.review.pool_review import reviewed_absences, reviewed_labels
from ...rules.review.rule_review import reviewed_rules
from ...rules.review.unmatched_rules import cancelled_rules, unmatched_rules
from ...text.errors import Problem
from ...text.yaml_fields import Field, FieldError
from ...text.yaml_nodes import TextNode
from ..creation import NodeMemory, created_container, created_pod
from .node_check import NodeCheck
from .permissive_config import permissive_config
from .read_container import ReadContainer


class PodCheck:
    """Checks pods against a configuration and a machine, each as if it were alone there."""

    def __init__(self, config: Config | None, machine: Machine | None) -> None:
        """Without a configuration: one that has every class a pod names.

        Without a machine nothing is placed. Raises `ConfigError` where the two do not fit.
        """
        self._config = config
        self._machine = machine
        self._node = None if machine is None else NodeCheck(machine, config)

    def __call__(
        self, name: str, namespace: str, template: TextNode | None
    ) -> Iterator[Problem | Finding]:
        """The problems of the pod that a manifest, or the template in one, describes."""
        line, column = (0, 0) if template is None else (template.line, template.column)
        field = Field(source="", path="", line=line, column=column, node=template)
        try:
            spec = pod_of(field, name, namespace)
        except FieldError as error:
            problem = error.problem or Problem(where="manifest", what=str(error))
            yield Finding(problem=problem, line=error.line, column=error.column)
            return
        yield from self.problems(spec)

    def between(self, written: Sequence[WrittenPod]) -> Iterator[tuple[WrittenPod, Finding]]:
        """Advice about rules of each pod for those of others, as of all files together.

        A pod that cannot be read is passed over: that has been said. So is an object of a name that
        another one before it has: both never run in one cluster.
        """
        first: dict[tuple[str, ...], TextNode] = {}
        readable: list[WrittenPod] = []
        pods: list[ReviewedPod] = []
        config = self._config or Config()
        central = CentralRules(config)
        for one in written:
            if one.identity and first.setdefault(one.identity, one.manifest) is not one.manifest:
                continue
            field = Field(source="", path="", line=0, column=0, node=one.template)
            try:
                spec = pod_of(field, one.name, one.namespace)
            except FieldError:
                continue
            pod = created_pod(spec, len(pods))
            containers = tuple(
                central.completed(created_container(each, pod, serial)[0])
                for serial, each in enumerate(spec.all_containers)
            )
            readable.append(one)
            pods.append(ReviewedPod(containers=containers, is_named=one.is_named))
        count = None if self._node is None else partial(self._node.eligible.count, config)
        for found in rules_between(pods, config, count):
            yield readable[found.place], readable[found.place].finding(found.problem)

    def problems(self, spec: PodSpec) -> Iterator[Problem]:
        """Problems and refusals that creation would report of the pod's containers."""
        config = self._config or permissive_config(spec)
        pod, central = created_pod(spec, 0), CentralRules(config)
        memory = None if self._machine is None else NodeMemory.of(self._machine)
        created = [
            created_container(one, pod, serial, memory=memory)
            for serial, one in enumerate(spec.all_containers, start=1)
        ]
        containers = [central.completed(container) for container, _ in created]
        given = {one.path: one.given for one in reversed(containers)}
        unread = chain.from_iterable(problems for _, problems in created)
        for problem in chain(unread, self._problems(spec, config, containers)):
            path = problem.where.partition(" of ")[2]
            yield from naming_rules((problem,), given.get(path, ()))

    def _problems(
        self, spec: PodSpec, config: Config, containers: Sequence[Container]
    ) -> Iterator[Problem]:
        """The problems as those who find them tell them. `containers`: all of the pod."""
        pairs = zip(spec.all_containers, containers, strict=True)
        lasting = [container for one, container in pairs if one.keeps_running]
        # A decision tells of the first problems; whoever asks here wants to know them all.
        classifier = Classifier(config, machine=self._machine, problems_max=sys.maxsize)
        read = [ReadContainer.of(one, classifier, lasting) for one in containers]
        asks_kubelet = self._config is not None and self._config.agent.pod_resource_api
        for one in read:
            yield from one.problems(asks_kubelet=asks_kubelet)
        requests = {one.container.id: one.classified.request for one in read}
        penned = {one.container.id for one in read if one.pen is not None}
        yield from idle_wishes(containers, requests, penned)
        yield from unmatched_rules(containers, is_symmetric=config.symmetric_affinity)
        yield from cancelled_rules(containers, is_symmetric=config.symmetric_affinity)
        for container in containers:
            yield from placement_rules(container, config)[1]
        node = self._node
        nest = None if node is None else node.eligible.domains.nest
        yield from reviewed_rules(containers, config, nest)
        yield from reviewed_mates(lasting, config)
        yield from reviewed_counts(lasting, config)
        free = [one.container for one in read if one.is_loose and one.container in lasting]
        if node is None:
            yield from reviewed_footprint(free, config)
            yield from reviewed_labels(containers, config, is_nodes=self._config is not None)
            yield from reviewed_absences(containers, config)
        else:
            reach = node.reach(free, requests, config)
            yield from reviewed_footprint(free, config, node.eligible.domains.masks, reach)
            yield from node.problems(spec, containers, requests, config)

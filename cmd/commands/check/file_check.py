"""Checks of files by what they hold: manifests, configurations, scenarios."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....policy.configuration.config import Config
from ....policy.configuration.config_text import KIND, config_document, parse_config_document
from ....policy.manifests.annotation_lint import lint_manifests
from ....policy.manifests.finding import Finding, finding_at
from ....policy.manifests.manifest_text import has_pods, is_configuration
from ....policy.manifests.object_faults import object_faults
from ....policy.manifests.workloads import ManifestObject, find_objects
from ....policy.manifests.written_pod import WrittenPod, written_pods
from ....policy.scenarios.check.pod_check import PodCheck
from ....policy.scenarios.scenario_file import is_scenario_file, parse_scenarios
from ....policy.text.errors import Problem, position_text
from ....policy.text.yaml_fields import Field, FieldError, read_fields
from ....policy.text.yaml_nodes import TextNode
from ....topology.model.machine import Machine
from .complaint import Complaint, Severity, Subject
from .step_check import config_complaints, step_complaints, written_steps


class FileCheck:
    """Checks texts against a configuration and a machine; without, against what may be anywhere."""

    def __init__(self, config: Config | None, machine: Machine | None) -> None:
        """Raises `ConfigError` where the two do not fit."""
        self._machine = machine
        self._pods = PodCheck(config, machine)
        self._written: list[tuple[str, WrittenPod]] = []

    def complaints(self, source: str, text: str) -> Iterator[Complaint]:
        """Complaints about a text, in the order of its lines where they are known."""
        if is_configuration(text):
            document = parse_config_document(text, source)
            yield from config_complaints(document, Subject.CONFIGURATION, self._machine)
        elif scenarios := _scenario_documents(source, text):
            for scenario in scenarios:
                yield from self._of_scenarios(scenario, text.splitlines())
        else:
            findings = (*object_faults(text), *lint_manifests(text, self._pods))
            found = [_of_finding(source, one) for one in dict.fromkeys(findings)]
            for node in _configurations(text):
                document = config_document(node, source)
                found.extend(config_complaints(document, Subject.CONFIGURATION, self._machine))
            yield from sorted(found, key=lambda one: (one.line or 0, one.column or 0))
            self._written.extend((source, one) for one in written_pods(text))

    def between_files(self) -> Iterator[Complaint]:
        """Complaints about objects that are in several of the texts that were checked so far.

        They may be editions of one object, for different clusters: so it is advice.
        """
        first: dict[tuple[str, ...], tuple[str, int]] = {}
        told: set[tuple[str, tuple[str, ...]]] = set()
        for source, pod in self._written:
            if pod.identity is None:
                continue
            place, line = first.setdefault(pod.identity, (source, pod.manifest.line))
            if place == source or (source, pod.identity) in told:
                continue
            told.add((source, pod.identity))
            _, kind, namespace, name = pod.identity
            problem = Problem(
                where=f"{'pod' if kind == 'Pod' else kind} '{namespace}/{name}'",
                what=f"is in {position_text(place, line, 0)} as well, and a cluster has one",
                fix="leave one of them out: applied together, the later one replaces the other",
                is_advice=True,
            )
            found = finding_at(problem, pod.manifest.line, pod.manifest.column, pod.lines)
            yield _of_finding(source, found)

    def between_pods(self) -> Iterator[Complaint]:
        """Complaints about rules of pods for one another, of all texts that were checked so far."""
        sources = {id(pod): source for source, pod in self._written}
        for pod, finding in self._pods.between([pod for _, pod in self._written]):
            yield _of_finding(sources[id(pod)], finding)

    def _of_scenarios(self, document: Field, lines: Sequence[str]) -> Iterator[Complaint]:
        try:
            parsed = parse_scenarios(document)
        except FieldError as error:
            source = document.source
            yield Complaint.of_line(str(error), source, Subject.SCENARIO, Severity.ERROR)
            return
        for scenario, field, step in written_steps(document, parsed):
            for one in step_complaints(field, step, self._pods, lines):
                yield replace(one, message=f"{scenario.id}: {one.message}")


def has_something(text: str) -> bool:
    """Whether a text holds anything that can be checked."""
    return (
        is_configuration(text)
        or has_pods(text)
        or bool(_configurations(text) or _scenario_documents("", text))
    )


def _configurations(text: str) -> list[TextNode]:
    """The configurations among the manifests of a text, and in lists; none where it is no YAML."""
    try:
        objects = [one for document in read_fields(text, "") for one in find_objects(document)]
    except FieldError:
        return []
    found = [one for one in objects if isinstance(one, ManifestObject) and one.kind == KIND]
    return [one.manifest.node for one in found if one.manifest.node is not None]


def _scenario_documents(source: str, text: str) -> list[Field]:
    """The documents of a scenario file; none of a text that is something else, or no YAML."""
    try:
        documents = read_fields(text, source)
        return [
            one for one in documents if is_scenario_file(one) and not one["scenarios"].is_missing
        ]
    except FieldError:
        return []


def _of_finding(source: str, finding: Finding) -> Complaint:
    return Complaint(
        source=source,
        subject=Subject.ANNOTATION,
        severity=Severity.ADVICE if finding.problem.is_advice else Severity.ERROR,
        message=finding.message,
        line=finding.line,
        column=finding.column,
        excerpt=finding.excerpt,
    )

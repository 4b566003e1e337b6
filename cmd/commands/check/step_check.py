"""Checks of configurations, wherever they are written, and of steps of scenarios."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from ....policy.configuration.config_text import build_config, config_document
from ....policy.engine.engine import Engine
from ....policy.manifests.pod_places import FilePlace, PodPlaces, distinct
from ....policy.manifests.pod_spec import PodSpec
from ....policy.rules.central_rules import CentralRules
from ....policy.scenarios.check.pod_check import PodCheck
from ....policy.scenarios.expressions.evaluator import EvaluatorError, check_expression
from ....policy.scenarios.scenario_file import KIND, Scenario, ScenarioFile
from ....policy.scenarios.step import CreatePod, Expect, Reconfigure, Start, Step, UnsupportedStep
from ....policy.text.errors import ConfigError
from ....policy.text.suggestion import nearest
from ....policy.text.yaml_document import Document
from ....policy.text.yaml_fields import Field
from ....policy.text.yaml_nodes import TextMap, TextScalar
from ....topology.model.machine import Machine
from .complaint import Complaint, Severity, Subject

_AMOUNTS: Final = ("cpu_req", "cpu_lim", "mem_req", "mem_lim", "hugepages")
_OF_STEP: Final[Mapping[str, tuple[str, ...]]] = {
    "start": ("config", "env", "kubelet", "expect_start_error"),
    "update_config": ("config", "expect_update_error"),
    "create_pod": (
        *("pod", "namespace", "labels", "annotations", "qos", "resources", "system_partition"),
        *("init_containers", "containers", "expect_create_error"),
    ),
    "add_container": ("pod", "namespace", "container", "expect_create_error"),
    "delete_pods": ("namespace", "pods"),
    "container_exit": ("container",),
    "container_crash_restart": ("container",),
    "update_container": ("container", *_AMOUNTS, "expect_update_error"),
    # A runtime is told of labels and annotations when a pod starts, and never again.
    "update_pod": ("pod", "namespace", *_AMOUNTS, "expect_update_error"),
    "set_interrupts": ("interrupts", "affinity"),
    "set_online": ("cpus",),
    "synchronize": ("container", "instances"),
    "synchronize_with_duplicates": ("container", "instances"),
    "wait": ("duration", "seconds"),
    "remember": ("name", "value"),
    "expect": ("that",),
}
_OF_ANY: Final = ("do", "note", "unsupported")
_OF_STEPS: Final = tuple(dict.fromkeys((*_OF_ANY, *chain(*_OF_STEP.values()))))
_OF_CONTAINERS: Final = (
    *("name", "note", "devices", "claims", "nvidia", "restart_policy", "env", "cpuset"),
    *_AMOUNTS,
)


def config_complaints(
    document: Document, subject: Subject, machine: Machine | None
) -> Iterator[Complaint]:
    """Complaints about the configuration in a document, on a machine where there is one."""
    source = document.place(()).source
    try:
        loaded = build_config([document])
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Complaint.of_line(line, source, subject, Severity.ERROR)
        return
    for warning in loaded.warnings:
        yield Complaint.of_line(warning, source, subject, Severity.ADVICE)
    try:
        with loaded.placing():
            CentralRules(loaded.config)
            warnings = () if machine is None else Engine(machine, loaded.config).warnings
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Complaint.of_line(line, source, subject, Severity.ERROR)
        return
    for warning in warnings:
        yield Complaint.of_line(loaded.placed(warning), source, subject, Severity.ADVICE)


def written_steps(document: Field, parsed: ScenarioFile) -> Iterator[tuple[Scenario, Field, Step]]:
    """Each step of the scenarios of a document, and the field it is written in."""
    written = [one for one in document["scenarios"].elements() if one["kind"].text(KIND) == KIND]
    for one, scenario in zip(written, parsed.scenarios, strict=True):
        for field, step in zip(one["steps"].elements(), scenario.steps, strict=True):
            yield scenario, field, step


def step_complaints(
    field: Field, step: Step, pods: PodCheck, lines: Sequence[str]
) -> Iterator[Complaint]:
    """Complaints about a step that is written in a field, in a file of these lines."""
    yield from misspelt_fields(field, step)
    match step:
        case Start(expected_error="") | Reconfigure(expected_error=""):
            yield from _of_config(field["config"])
        case CreatePod(expected_error="", pod=pod):
            yield from _of_pod(field, pod, pods, lines)
        case Expect(that=that):
            written = field["that"]
            places = written.elements() if written.is_list else (field,)
            for place, expression in zip(places, that, strict=False):
                try:
                    check_expression(expression)
                except EvaluatorError as error:
                    yield _error(field, f"{expression}: {error}", place)
        case _:
            pass


def misspelt_fields(field: Field, step: Step) -> Iterator[Complaint]:
    """Complaints about fields of a step, and of its containers, that nobody reads."""
    if isinstance(step, UnsupportedStep):
        return
    yield from _misspelt(field, _OF_STEPS)
    yield from _misplaced(field, _OF_STEP.get(kind := field["do"].text(), ()), kind)
    for written in (field["init_containers"], field["containers"]):
        for one in written.elements():
            yield from _misspelt(one, _OF_CONTAINERS)
    if isinstance(field["container"].node, TextMap):
        yield from _misspelt(field["container"], _OF_CONTAINERS)


def _misspelt(field: Field, known: Sequence[str]) -> Iterator[Complaint]:
    """Complaints about fields that nobody reads, and that are much like one that is read."""
    keys = [key for key, _ in field.node.entries] if isinstance(field.node, TextMap) else []
    for key in keys:
        near = None if key.value in known else nearest(key.value, known)
        if near:
            text = f"unknown field {key.value!r} — did you mean {near!r}?"
            yield _error(field, text, key)


def _misplaced(field: Field, known: Sequence[str], kind: str) -> Iterator[Complaint]:
    """Complaints about fields that are read in steps of other kinds alone."""
    keys = [key for key, _ in field.node.entries] if isinstance(field.node, TextMap) else []
    for key in keys:
        if key.value in _OF_STEPS and key.value not in (*_OF_ANY, *known):
            accepted = f"it has {', '.join(known)}" if known else "it has none"
            text = f"field {key.value!r} has no effect in {kind} — {accepted}"
            yield _error(field, text, key)


def _error(field: Field, message: str, place: Field | TextScalar | FilePlace) -> Complaint:
    """The complaint about a place in a field's file."""
    return Complaint(
        source=field.source,
        subject=Subject.SCENARIO,
        severity=Severity.ERROR,
        message=message,
        line=place.line,
        column=place.column,
    )


def _of_config(field: Field) -> Iterator[Complaint]:
    if field.node is None or field.is_missing:
        return
    document = config_document(field.node, field.source)
    for one in config_complaints(document, Subject.SCENARIO, None):
        if one.severity is not Severity.ADVICE:
            yield replace(one, message=f"configuration: {one.message}")


def _of_pod(
    field: Field, pod: PodSpec, pods: PodCheck, lines: Sequence[str]
) -> Iterator[Complaint]:
    containers = (*field["init_containers"].elements(), *field["containers"].elements())
    names = [one["name"].node for one in containers]
    pod_name = field["pod"].node
    assert pod_name is not None
    places = PodPlaces(
        pod_name,
        field["annotations"].node,
        [one for one in names if isinstance(one, TextScalar)],
        f"{pod.namespace}/{pod.name}",
        lines,
    )
    for problem in distinct(pods.problems(pod), pod.annotations):
        place = places.find(problem, pod.annotations)
        # Its place inside the text is told only where that in the file is not known.
        told = replace(problem, line=0, column=0) if place.is_exact else problem
        severity = Severity.ADVICE if problem.is_advice else Severity.ERROR
        yield replace(_error(field, str(told), place), severity=severity)

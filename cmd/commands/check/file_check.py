"""Checks of files by what they hold: manifests, configurations, scenarios."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ....policy.configuration.config import Config
from ....policy.configuration.config_text import config_from_values, read_config
from ....policy.engine.engine import Engine
from ....policy.manifests.annotation_lint import (
    Finding,
    has_pods,
    is_configuration,
    lint_manifests,
)
from ....policy.rules.central_rules import CentralRules
from ....policy.scenarios.evaluator import EvaluatorError, check_expression
from ....policy.scenarios.pod_check import PodCheck
from ....policy.scenarios.scenario_file import is_scenario_file, parse_scenarios
from ....policy.scenarios.step import CreatePod, Expect, Reconfigure, Start, Step
from ....policy.text.errors import ConfigError
from ....policy.text.yaml_fields import Field, FieldError, read_fields
from ....topology.model.machine import Machine
from .complaint import Complaint, Gravity, Subject


class FileCheck:
    """Checks texts against a configuration and a machine; without, against what may be anywhere."""

    def __init__(self, config: Config | None, machine: Machine | None) -> None:
        """Raises `ConfigError` where the two do not fit."""
        self._machine = machine
        self._pods = PodCheck(config, machine)

    def complaints(self, source: str, text: str) -> Iterator[Complaint]:
        """Complaints about a text, in the order of its lines where they are known."""
        if is_configuration(text):
            yield from self._of_configuration(source, text)
        elif scenarios := _scenario_documents(source, text):
            for document in scenarios:
                yield from self._of_scenarios(source, document)
        else:
            for finding in lint_manifests(text, self._pods):
                yield _of_finding(source, finding)

    def _of_configuration(self, source: str, text: str) -> Iterator[Complaint]:
        def complaint(line: str, gravity: Gravity, shown: str = "") -> Complaint:
            found = Complaint.of_line(line, source, Subject.CONFIGURATION, gravity)
            return replace(found, text=shown or line)

        try:
            loaded = read_config(text, source)
        except ConfigError as error:
            yield from (complaint(line, Gravity.ERROR) for line in str(error).splitlines())
            return
        for warning in loaded.warnings:
            yield complaint(warning, Gravity.ADVICE, f"advice: {warning}")
        try:
            CentralRules(loaded.config)
        except ConfigError as error:
            for line in str(error).splitlines():
                yield complaint(f"{source}: {line}", Gravity.ERROR)
            return
        if self._machine is None:
            return
        try:
            warnings = Engine(self._machine, loaded.config).warnings
        except ConfigError as error:
            yield complaint(f"{source}: {error}", Gravity.ERROR)
            return
        for warning in warnings:
            yield complaint(warning, Gravity.ADVICE, f"{source}: advice: {warning}")

    def _of_scenarios(self, source: str, document: Field) -> Iterator[Complaint]:
        try:
            parsed = parse_scenarios(document)
        except FieldError as error:
            yield Complaint.of_line(str(error), source, Subject.SCENARIO, Gravity.ERROR)
            return
        fields = {one["id"].text(""): one for one in document["scenarios"].elements()}
        for scenario in parsed.scenarios:
            steps = fields[scenario.id]["steps"].elements()
            for field, step in zip(steps, scenario.steps, strict=True):
                for what, line, is_advice in self._of_step(field, step):
                    kind = "advice: " if is_advice else ""
                    yield Complaint(
                        source=source,
                        subject=Subject.SCENARIO,
                        gravity=Gravity.ADVICE if is_advice else Gravity.ERROR,
                        text=f"{source}:{line}: {kind}{scenario.id}: {what}",
                        message=f"{scenario.id}: {what}",
                        line=line,
                    )

    def _of_step(self, field: Field, step: Step) -> Iterator[tuple[str, int, bool]]:
        """What is wrong with a step, the line, and whether it is only advice."""
        match step:
            case Start(expected_error="", config=config) if config is not None:
                yield from _of_config(field["config"], config)
            case Reconfigure(expected_error="", config=config):
                yield from _of_config(field["config"], config)
            case CreatePod(expected_error="", pod=pod):
                for problem in self._pods.problems(pod):
                    yield str(problem), field.line, problem.is_advice
            case Expect(that=that):
                written = field["that"]
                lines = [one.line for one in written.elements()] if written.is_list else []
                for place, expression in enumerate(that):
                    try:
                        check_expression(expression)
                    except EvaluatorError as error:
                        line = lines[place] if place < len(lines) else field.line
                        yield f"{expression}: {error}", line, False
            case _:
                pass


def has_something(text: str) -> bool:
    """Whether a text holds anything that can be checked."""
    return is_configuration(text) or has_pods(text) or bool(_scenario_documents("", text))


def _of_config(field: Field, config: Mapping[str, object]) -> Iterator[tuple[str, int, bool]]:
    try:
        config_from_values(config)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield line, field.line, False


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
    problem = finding.problem
    fix = f" — {problem.fix}" if problem.fix else ""
    return Complaint(
        source=source,
        subject=Subject.ANNOTATION,
        gravity=Gravity.ADVICE if problem.is_advice else Gravity.ERROR,
        text=finding.text(source),
        message=f"{problem.where}: {problem.what}{fix}",
        line=finding.line,
        column=finding.column,
    )

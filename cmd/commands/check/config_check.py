"""Checks of configurations, wherever they are written, with the places of their fields."""

from collections.abc import Iterator

from ....policy.configuration.config_text import build_config
from ....policy.engine.engine import Engine
from ....policy.rules.central_rules import CentralRules
from ....policy.text.errors import ConfigError
from ....policy.text.yaml_document import Document
from ....topology.model.machine import Machine
from .complaint import Complaint, Severity, Subject


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

"""Faults of the objects of manifests that no API server takes, whatever their annotations."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ..text.errors import Problem
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextError, TextMap
from ..text.yaml_text import parse_documents
from .annotation_lint import MANIFEST_LIMITS, Finding, finding_at
from .manifest import check_counts, object_name
from .workloads import NO_KIND, Workload, find_workloads

_NO_CONFIGURATION: Final = "a configuration is one document without '---'"


def object_faults(text: str) -> Iterator[Finding]:
    """Faults of the objects of a text in written order: fields left out, counts of what is none.

    Objects without a pod template are passed over, and so is a text that is no YAML.
    """
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
    except TextError:
        return
    lines = text.splitlines()
    for document in documents:
        if isinstance(document, TextMap):
            for error in _faults(Field.of(document, "")):
                yield _finding(error, lines)


def _faults(document: Field) -> Iterator[FieldError]:
    """Faults of one document, which may be a list of objects."""
    try:
        workloads = list(find_workloads(document))
    except FieldError:
        # More objects than are looked at, which has been said.
        return
    version = document["apiVersion"]
    if any(isinstance(one, Workload) for one in workloads) and version.is_missing:
        yield version.error("is missing", "write it, as in 'apiVersion: v1'")
    for one in workloads:
        if isinstance(one, FieldError):
            yield one
        else:
            yield from _faults_of(one)


def _faults_of(workload: Workload) -> Iterator[FieldError]:
    try:
        if not workload.is_of_operator:
            object_name(workload, {})
    except FieldError as error:
        yield error
    try:
        check_counts(workload)
    except FieldError as error:
        yield error


def _finding(error: FieldError, lines: Sequence[str]) -> Finding:
    problem = error.problem or Problem(where="", what=str(error))
    if problem.what == NO_KIND:
        problem = replace(problem, fix=f"{problem.fix}; {_NO_CONFIGURATION}")
    if not problem.where:
        problem = replace(problem, where="manifest")
    return finding_at(problem, error.line, error.column, lines)

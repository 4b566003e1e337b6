"""Faults of the objects of manifests that no API server takes, whatever their annotations."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from ..text.errors import Problem
from ..text.yaml_fields import Field, FieldError
from ..text.yaml_nodes import TextError
from ..text.yaml_text import parse_documents
from .finding import Finding, finding_at
from .manifest import check_counts, object_name, object_of, template_of
from .manifest_text import MANIFEST_LIMITS
from .workloads import NO_KIND, Workload, find_workloads

_NO_CONFIGURATION: Final = "a configuration is one document without '---'"


def object_faults(text: str) -> Iterator[Finding]:
    """Faults of the objects of a text in written order: fields left out, counts of what is none.

    And documents that are no object, and objects that are there twice: kubectl would put the later
    one over the other. Objects without a pod template are passed over, and so is a text that is no
    YAML.
    """
    try:
        documents = parse_documents(text, MANIFEST_LIMITS)
    except TextError:
        return
    lines = text.splitlines()
    named: dict[tuple[str, str, str], tuple[int, str]] = {}
    for document in documents:
        for error, is_advice in _faults(Field.of(document, ""), named):
            found = _finding(error, lines)
            yield structs.replace(found, problem=replace(found.problem, is_advice=is_advice))


def _faults(
    document: Field, named: dict[tuple[str, str, str], tuple[int, str]]
) -> Iterator[tuple[FieldError, bool]]:
    """Faults of one document, which may be a list of objects; and whether they are advice.

    Those are of what a fragment, such as a patch, has no need of. `named`: the objects before, by
    kind, namespace and name.
    """
    try:
        workloads = list(find_workloads(document))
    except FieldError:
        # More objects than are looked at, which has been said.
        return
    if any(isinstance(one, Workload) for one in workloads):
        version = document["apiVersion"]
        if version.is_missing:
            yield version.error("is missing", "write it, as in 'apiVersion: v1'"), True
        else:
            try:
                version.text()
            except FieldError as error:
                yield error, False
    for one in workloads:
        if isinstance(one, FieldError):
            yield one, False
        else:
            yield from _faults_of(one)
            if one.is_of_operator or one.template.makes_pods:
                yield from _second(one, named)


def _faults_of(workload: Workload) -> Iterator[tuple[FieldError, bool]]:
    metadata = workload.manifest["metadata"]
    try:
        if not workload.is_of_operator:
            object_name(workload, {})
    except FieldError as error:
        is_fit = metadata.is_missing or metadata.is_mapping
        yield error, is_fit and all(metadata[key].is_missing for key in ("name", "generateName"))
    for check, is_advice in ((check_counts, False), (template_of, True)):
        try:
            check(workload)
        except FieldError as error:
            yield error, is_advice


def _second(
    workload: Workload, named: dict[tuple[str, str, str], tuple[int, str]]
) -> Iterator[tuple[FieldError, bool]]:
    metadata = workload.manifest["metadata"]
    try:
        name, namespace = metadata["name"].text(""), metadata["namespace"].text("default")
    except FieldError:
        # No name that could be another one's, which is said elsewhere.
        return
    own = object_of(workload)
    # An object with several templates comes once for each.
    if name and named.setdefault((workload.full_kind, namespace, name), own) != own:
        shown = "pod" if workload.kind == "Pod" else workload.kind
        what = f"{shown} '{namespace}/{name}' is defined twice"
        yield workload.manifest.error(what, "rename one"), False


def _finding(error: FieldError, lines: Sequence[str]) -> Finding:
    problem = error.problem or Problem(where="", what=str(error))
    if problem.what == NO_KIND:
        problem = replace(problem, fix=f"{problem.fix}; {_NO_CONFIGURATION}")
    if not problem.where:
        problem = replace(problem, where="manifest")
    return finding_at(problem, error.line, error.column, lines)

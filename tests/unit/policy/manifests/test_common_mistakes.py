"""Mistakes that people make in YAML for Kubernetes: each is told at its place, with its remedy."""

import pytest

from pinfold.cmd.commands.check.file_check import FileCheck

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    smt.pinfold.dev/pod: hide
spec:
  containers:
  - name: a
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    metadata:
      annotations:
        smt.pinfold.dev/pod: hide
"""
TEMPLATE = "is a template, and no YAML — fill it in first, as 'helm template' does"


def told(text: str) -> list[str]:
    complaints = FileCheck(None, None).complaints("x.yaml", text)
    return [one.placed_text.splitlines()[0].removeprefix("x.yaml:") for one in complaints]


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        pytest.param(
            POD.replace("name: web", "name: {{ .Release.Name }}"),
            [f"4:9: manifest: '{{{{ .Release.Name }}}}' {TEMPLATE}"],
            id="a template in place of a name",
        ),
        pytest.param(
            "{{- if .Values.pinned }}\n" + POD + "{{- end }}\n",
            [f"1:1: manifest: '{{{{- if .Values.pinned }}}}' {TEMPLATE}"],
            id="a template around a manifest",
        ),
        pytest.param(
            POD.replace(": hide", ': "pack'),
            ["6:26: manifest: not valid YAML: a quote that is not closed — close it"],
            id="a quote that is not closed, many lines before the end",
        ),
        pytest.param(
            POD.replace("annotations:", "annotations: &all")
            + "---\n"
            + POD.replace("annotations:", "annotations: *all").replace(
                "    smt.pinfold.dev/pod: hide\n", ""
            ),
            [
                "15:16: manifest: alias 'all' of an unknown anchor — define &all before, in the"
                " same document"
            ],
            id="an anchor of another document",
        ),
        pytest.param(
            POD.replace("  annotations:\n    smt", "  labels:\n    annotations:\n      smt"),
            [
                "6:5: metadata.labels.annotations: they are among labels, as they are indented too"
                " far — indent them as metadata.annotations"
            ],
            id="annotations that are indented too far",
        ),
        pytest.param(
            DEPLOYMENT.replace(
                "      annotations:\n        smt",
                "      labels:\n        annotations:\n          smt",
            )
            + "    spec: {containers: [{name: a}]}\n",
            [
                "9:9: spec.template.metadata.labels.annotations: they are among labels, as they are"
                " indented too far — indent them as spec.template.metadata.annotations"
            ],
            id="annotations of a template that are indented too far",
        ),
        pytest.param(
            POD.replace("kind: Pod", "Kind: Pod"),
            ["2:7: Kind: no manifest has such a field — write 'kind'"],
            id="a kind in capitals, which is no configuration",
        ),
        pytest.param(
            POD.replace("kind: Pod\n", ""),
            [
                "1:1: manifest: no 'kind' — a Kubernetes manifest begins with apiVersion and kind;"
                " a configuration is one document without '---'"
            ],
            id="a manifest without a kind, which is no configuration",
        ),
        pytest.param(
            DEPLOYMENT,
            ["7:5: advice: spec.containers: is empty — a pod has at least one container"],
            id="a patch, which needs no containers",
        ),
        pytest.param(
            POD.replace("spec:\n  containers:\n  - name: a\n", ""),
            ["1:1: spec.containers: is empty — a pod has at least one container"],
            id="a pod without a spec, which is none",
        ),
        pytest.param(
            POD.replace(
                "smt.pinfold.dev/pod: hide", "affinity.pinfold.dev/pod: |\n    podAffinity: {}"
            ),
            [
                "7:5: podAffinity: this is an annotation of its own, and 'affinity.pinfold.dev/pod'"
                " above is empty — indent it further than 'affinity.pinfold.dev/pod'"
            ],
            id="a text that is not indented below its annotation",
        ),
        pytest.param(
            DEPLOYMENT.replace("spec:\n", 'spec:\n  replicas: "3"\n', 1)
            + "    spec: {containers: [{name: a}]}\n",
            ["6:13: spec.replicas: '3' is not an integer — leave out its quotes"],
            id="a number in quotes",
        ),
        pytest.param(
            POD + '    resources: {requests: {cpu: "2 "}}\n',
            [
                "10:33: spec.containers[0].resources.requests.cpu: '2 ' has a space around the"
                " amount — leave it out"
            ],
            id="a space behind an amount",
        ),
    ],
)
def test_a_mistake_is_told_with_its_remedy(text: str, complaints: list[str]) -> None:
    assert told(text) == complaints


def test_an_annotation_without_a_value_is_not_to_be_put_in_quotes() -> None:
    assert (
        "6:25: smt.pinfold.dev/pod: there is no value — write one after the colon, in quotes"
        in (told(POD.replace(": hide", ":")))
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(POD.replace("\n", "\r\n"), id="lines of Windows"),
        pytest.param("\ufeff" + POD, id="a byte order mark"),
        pytest.param("---\n---\n# nothing\n---\n" + POD + "---\n...\n", id="empty documents"),
        pytest.param(
            POD.replace("annotations:\n    smt.pinfold.dev/pod: hide", "annotations: null"),
            id="annotations that are null",
        ),
    ],
)
def test_what_is_no_mistake_is_passed_over(text: str) -> None:
    assert told(text) == []


def test_a_configuration_without_a_kind_is_still_one() -> None:
    assert "config.nri/v1alpha1" in " ".join(told("apiVersion: config.nri/v1\nspec: {}\n"))

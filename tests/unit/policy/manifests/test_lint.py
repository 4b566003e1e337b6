import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.manifests.manifest_text import has_pods, is_configuration
from pinfold.policy.manifests.written_pod import written_pods
from tests.unit.policy.manifests.finding_texts import finding_text

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: field
  annotations:
    {annotation}
spec:
  initContainers:
  - name: setup
  containers:
  - name: peter
  - name: sheep
"""


def lint(annotation: str) -> list[tuple[int, str]]:
    findings = lint_manifests(POD.replace("{annotation}", annotation))
    return [(finding.line, finding_text(finding, "web.yaml")) for finding in findings]


@pytest.mark.parametrize(
    "annotation",
    [
        "a.b/c: true",
        'prefer-shared-cpus.resource-policy.nri.io/pod: "true"',
        "memory-type.resource-policy.nri.io/container.setup: dram,pmem",
        'pinfold.dev/affinity: "peter: [sheep]"',
        "resource-policy.nri.io/anti-affinity: |\n      peter:\n      - sheep",
    ],
)
def test_a_good_annotation_has_no_findings(annotation: str) -> None:
    assert lint(annotation) == []


@pytest.mark.parametrize(
    ("annotation", "line", "text"),
    [
        (
            "prefer-shared-cpus.resource-policy.nri.io/pod: true",
            6,
            "the value 'true' is not a string — put it in quotes",
        ),
        ("smt.pinfold.dev/pod: [pack]", 6, "the value is not a string — write '|'"),
        ("smt.pinfold.dev/pod: packed", 6, "'packed' — did you mean 'pack'?"),
        (
            "smt.pinfold.dev/container.shep: pack",
            6,
            "smt.pinfold.dev/container.shep of default/field: the pod has no container 'shep'"
            " — did you mean 'sheep'?",
        ),
        ('pinfold.dev/affinity: "peter: [shep]"', 6, "no container 'shep'"),
        ("pinfold.dev/affinity: '\"*\": [sheep]'", 6, "no container '*'"),
        (
            "pinfold.dev/affinity: |\n\n      peter:\n      - match: {key: nam, operator: Exists}",
            9,
            "web.yaml:9:22: pinfold.dev/affinity of default/field/peter: unknown key 'nam'",
        ),
        (
            "resource-manager.nri.io/affinity: x",
            6,
            "did you mean 'resource-policy.nri.io/affinity'",
        ),
        ("smt.pinfold.dev/pod: x\n   b: c", 7, "manifest: not valid YAML"),
        ("smt.pinfold.dev/pod: x\n    smt.pinfold.dev/pod: x", 7, "is given twice"),
    ],
)
def test_a_finding_has_its_line_in_the_file(annotation: str, line: int, text: str) -> None:
    ((found_line, found),) = lint(annotation)
    assert found_line == line
    assert re.match(rf"web\.yaml:{line}:\d+: ", found)
    assert text in found


def test_the_place_is_underlined() -> None:
    text = "pinfold.dev/affinity: |\n      peter:\n      - match: {key: nam, operator: Exists}"
    ((_, found),) = lint(text)
    _, excerpt, underline = found.splitlines()
    assert excerpt[underline.index("^") :].startswith("nam,")


@pytest.mark.parametrize(
    ("annotation", "line", "underlined", "where"),
    [
        pytest.param(
            'pinfold.dev/affinity: "peter: [{match: {key: nam, operator: Exists}}]"',
            6,
            "nam,",
            "pinfold.dev/affinity of default/field/peter: ",
            id="a quoted text without escapes is underlined",
        ),
        pytest.param(
            "pinfold.dev/affinity: 'peter: [{match: {key: nam, operator: Exists}}]'",
            6,
            "nam,",
            "pinfold.dev/affinity of default/field/peter: ",
            id="single quotes",
        ),
        pytest.param(
            'pinfold.dev/affinity: "peter:\\n- match: {key: nam, operator: Exists}"',
            6,
            "nam,",
            "pinfold.dev/affinity of default/field/peter: ",
            id="double quotes with escapes",
        ),
        pytest.param(
            "pinfold.dev/affinity: >\n\n      {peter: [\n"
            "      {match: {key: nam, operator: Exists}}]}",
            9,
            "nam,",
            "pinfold.dev/affinity of default/field/peter: ",
            id="a folded block",
        ),
        pytest.param(
            "pinfold.dev/affinity: |\n      peter:\n      - shep",
            8,
            "shep",
            "pinfold.dev/affinity of default/field: the pod has no container 'shep'",
            id="a friend that the pod does not have",
        ),
        pytest.param(
            "pinfold.dev/anti-affinity: |\n      peter: [sheep]\n      zz: [sheep, shep]",
            8,
            "zz:",
            "pinfold.dev/anti-affinity of default/field: the pod has no container 'zz'",
            id="a container with rules that the pod does not have",
        ),
        pytest.param(
            "resource-policy.nri.io/memory-type: |\n      peter: dram\n      zz: dram",
            8,
            "zz:",
            "resource-policy.nri.io/memory-type of default/field: the pod has no container 'zz'",
            id="the older style with a line per container",
        ),
    ],
)
def test_a_place_inside_an_annotation_is_not_lost(
    annotation: str, line: int, underlined: str, where: str
) -> None:
    found_line, found = lint(annotation)[0]
    assert found_line == line
    first, *excerpt = found.splitlines()
    assert excerpt[0][excerpt[1].index("^") :].startswith(underlined)
    text = POD.replace("{annotation}", annotation).splitlines()[line - 1]
    assert first.startswith(f"web.yaml:{line}:{text.index(underlined) + 1}: {where}")


TAB = "not valid YAML: a tab where only spaces may be — indent with spaces"


@pytest.mark.parametrize(
    ("annotation", "place", "what"),
    [
        pytest.param(
            "pinfold.dev/affinity: |\n      peter:\n      \t- sheep",
            "8:7",
            TAB,
            id="a tab in a block, on its own line",
        ),
        pytest.param(
            "pinfold.dev/affinity: |1-\n      peter:\n      \t- sheep",
            "8:7",
            TAB,
            id="a tab in a block that is written deeper than it says",
        ),
        pytest.param(
            "pinfold.dev/affinity: |\n      peter: [sheep]\n\n      \tzz: [sheep]",
            "9:7",
            TAB,
            id="a tab behind an empty line",
        ),
        pytest.param(
            "smt.pinfold.dev/pod: pack\n\tapp: x", "7:1", TAB, id="a tab in the manifest itself"
        ),
        pytest.param(
            "pinfold.dev/affinity: |\n      peter: [sheep\n    x/y: z",
            "7:20",
            "not valid YAML: did not find expected ',' or ']' — check indentation and quotes",
            id="a list that does not end is told at the end of the block",
        ),
        pytest.param(
            "pinfold.dev/affinity: |-\n      peter: [sheep\n    x/y: z",
            "7:20",
            "not valid YAML: did not find expected ',' or ']' — check indentation and quotes",
            id="a list that does not end in a block without its last line break",
        ),
        pytest.param(
            "pinfold.dev/affinity: 'peter: [sheep'\n    x/y: z",
            "6:41",
            "not valid YAML: did not find expected ',' or ']' — check indentation and quotes",
            id="a list that does not end is told before the quote that ends it",
        ),
        pytest.param(
            "pinfold.dev/affinity: |\n      peter: [sheep]\n      zz\n      sheep: [peter]",
            "8:7",
            "not valid YAML: could not find expected ':' — check indentation and quotes",
            id="a key without a colon is told where it is",
        ),
    ],
)
def test_what_is_no_yaml_is_told_on_its_line(annotation: str, place: str, what: str) -> None:
    _, found = lint(annotation)[0]
    first = found.splitlines()[0]
    assert first.startswith(f"web.yaml:{place}: ")
    assert first.endswith(f": {what}")


def test_rules_of_both_annotations_are_looked_at_for_names() -> None:
    text = (
        "pinfold.dev/affinity: 'peter: [one]'\n    pinfold.dev/anti-affinity: 'two: [one, peter]'"
    )
    assert [(line, found.partition(" — ")[0]) for line, found in lint(text)] == [
        (6, "web.yaml:6:36: pinfold.dev/affinity of default/field: the pod has no container 'one'"),
        (
            7,
            "web.yaml:7:33: pinfold.dev/anti-affinity of default/field:"
            " the pod has no container 'two'",
        ),
        (
            7,
            "web.yaml:7:39: pinfold.dev/anti-affinity of default/field:"
            " the pod has no container 'one'",
        ),
    ]


@pytest.mark.parametrize("margin", [0, 30, 5000])
@pytest.mark.parametrize("after", [0, 5000])
def test_of_a_long_line_the_part_around_the_place_is_shown(margin: int, after: int) -> None:
    pod = (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {"x/y": "'
        + "é" * margin
        + '", "bogus.pinfold.dev/pod": "1"}}, "spec": {"containers": [{"name": "'
        + "z" * after
        + '"}]}}'
    )
    (found,) = lint_manifests(pod)
    excerpt, underline = found.excerpt.splitlines()
    assert excerpt[underline.index("^") :].startswith('"bogus.pinfold.dev/pod": "1"}')
    assert pod[found.column - 1 :].startswith('"bogus')
    assert len(excerpt) < 170


def test_an_excerpt_has_no_control_characters() -> None:
    ((_, found),) = lint("a: \x1b[31m [\n  b: \x1b")
    assert "\x1b" not in found


KINDS = """\
apiVersion: v1
kind: List
items:
- kind: Deployment
  metadata: {name: d}
  spec: {template: {metadata: {annotations: &bad {smt.pinfold.dev/pod: x}},
                    spec: {containers: [{name: one}, {name: two}]}}}
- kind: CronJob
  metadata: {name: c, namespace: n}
  spec: {jobTemplate: {spec: {template: {metadata: {annotations: *bad},
          spec: {containers: [{name: three}]}}}}}
- kind: Service
  metadata: {annotations: {smt.pinfold.dev/pod: x}}
---
kind: DaemonSet
metadata: {name: e}
spec:
  template:
    metadata: {annotations: {smt.pinfold.dev/pods: x}}
"""


def test_all_kinds_with_pods_are_looked_at_once_per_pod() -> None:
    wheres = [finding.problem.where for finding in lint_manifests(KINDS)]
    assert wheres == [
        "smt.pinfold.dev/pod of default/d/one",
        "smt.pinfold.dev/pod of n/c/three",
        "smt.pinfold.dev/pods of default/e",
    ]


@pytest.mark.parametrize(
    ("kind", "head", "indent"),
    [
        ("Rollout", "spec:\n  template:\n", 4),
        (
            "JobSet",
            "spec:\n  jobs:\n  - name: a\n    template: {}\n  - spec:\n      template:\n",
            8,
        ),
        ("Training", "spec: {a: {spec: {containers: []}}, replicas: {Worker: [[ONE]]}}\n", 0),
    ],
)
def test_pod_templates_of_kinds_that_nobody_knows_are_looked_at(
    kind: str, head: str, indent: int
) -> None:
    pod = "metadata: {annotations: {smt.pinfold.dev/pod: packed}}"
    lines = (pod, "spec: {containers: [{name: a}]}")
    block = "".join(f"{' ' * indent}{line}\n" for line in lines) if indent else ""
    head = head.replace("ONE", "{" + ", ".join(lines) + "}")
    text = f"apiVersion: b/v1\nkind: {kind}\nmetadata: {{name: own}}\n{head}{block}"
    (found,) = lint_manifests(text)
    assert "smt.pinfold.dev/pod of default/own" in found.message
    assert text.splitlines()[found.line - 1][found.column - 1 :].startswith("smt.pinfold")
    assert has_pods(text)


def test_an_object_of_a_kind_that_nobody_knows_is_no_pod_itself() -> None:
    text = "kind: Monitor\nspec: {containers: [{name: part}]}\n"
    assert not has_pods(text)


def test_templates_by_alias_are_looked_at_once() -> None:
    doubled = [f"  a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    pod = (
        "{metadata: {annotations: {smt.pinfold.dev/pod: packed}}, spec: {containers: [{name: b}]}}"
    )
    text = "\n".join(["kind: Many", "spec:", f"  a0: &a0 {pod}", *doubled])
    (found,) = lint_manifests(text)
    assert found.line == 3


def test_lists_of_lists_by_alias_come_to_an_end() -> None:
    texts = ["kind: List", "items:", "- &a0 {kind: List, items: []}"]
    texts += [f"- &a{n} {{kind: List, items: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    text = "\n".join(texts)
    (found,) = lint_manifests(text)
    assert finding_text(found, "web.yaml") == (
        "web.yaml:1:1: manifest: more than 10000 objects — write several files"
        "\n    kind: List\n    ^"
    )
    assert not has_pods(text)


@pytest.mark.parametrize("text", ["", "x", "- a", "kind: Pod", "kind: Pod\nmetadata: 7", "\x00"])
def test_odd_texts_are_no_crash(text: str) -> None:
    assert len(lint_manifests(text)) == (text == "\x00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pinCPU: true", True),
        ("apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy", True),
        ("kind: Pod", False),
        ("scenarios: []", False),
        ("- a", False),
        ("a: [", False),
        ("a: b\n---\nc: d", False),
    ],
)
def test_a_configuration_is_told_from_manifests(text: str, expected: bool) -> None:
    assert is_configuration(text) is expected


@pytest.mark.parametrize(
    ("text", "status", "output"),
    [
        (POD.replace("{annotation}", "a: b"), 0, ""),
        (POD.replace("{annotation}", "smt.pinfold.dev/pod: x"), 1, "unknown use of threads 'x'"),
        ("pinCPU: true\n", 0, ""),
        ("pinCpu: true\n", 1, "did you mean 'pinCPU'?"),
    ],
)
def test_the_exit_status_of_the_command(
    tmp_path: Path, text: str, status: int, output: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    result = CliRunner().invoke(main, ["lint", str(file)])
    assert result.exit_code == status
    assert output in result.output


def test_a_file_that_cannot_be_read_is_another_status(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["lint", str(tmp_path / "none.yaml")])
    assert result.exit_code == 2
    assert "none.yaml" in result.output


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(POD.replace("{annotation}", "a: b"))
    bad.write_text(POD.replace("{annotation}", "smt.pinfold.dev/pod: x"))
    result = CliRunner().invoke(main, ["lint", *map(str, (good, tmp_path / "none.yaml", bad))])
    assert result.exit_code == 2
    assert "none.yaml: No such file" in result.stderr
    assert "unknown use of threads 'x'" in result.stdout


def test_all_pods_of_a_text_have_one_list_of_its_lines() -> None:
    pod = POD.replace("{annotation}", 'x: "y"')
    first, *others = written_pods("---\n".join([pod] * 3))
    assert len(others) == 2
    assert all(one.lines is first.lines for one in others)

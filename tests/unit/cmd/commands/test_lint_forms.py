"""`pinfold lint` for tools: JSON, GitHub's annotations and SARIF; and what files it understands."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    smt.pinfold.dev/pod: packed
    memory-type.cri-resource-manager.intel.com/pod: dram
spec:
  containers: [{name: web}]
"""
POLICY = "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\n"
CONFIGURATION = "pinMemory: true\npinCpu: false\n"
SCENARIOS = """\
scenarios:
- id: rollout
  steps:
  - {do: start, config: {pinCpu: true}}
  - do: create_pod
    pod: shop
    annotations: {smt.pinfold.dev/pod: packed}
    containers: [{name: web}]
  - do: expect
    that:
    - cpus["web"] == {"cpu1"}
    - cpus["web" ==
- id: expected
  steps:
  - {do: start, config: {pinCpu: true}, expect_start_error: unknown field}
"""


def lint(*arguments: str, text: str) -> Result:
    return CliRunner().invoke(main, ["lint", "-", *arguments], input=text)


def document(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lint("-o", "json", text=text).stdout)["complaints"]
    return found


def test_a_complaint_has_its_line_and_column_in_json() -> None:
    packed, domain = document(POD)
    assert (packed["file"], packed["line"], packed["column"]) == ("standard input", 6, 5)
    assert (packed["level"], packed["subject"]) == ("error", "annotation")
    assert packed["message"].endswith("'packed' — did you mean 'pack'?")
    assert (domain["line"], domain["level"]) == (7, "advice")


def test_an_old_domain_is_advice_and_says_what_to_write() -> None:
    (domain,) = (one for one in document(POD) if one["level"] == "advice")
    assert domain["message"].endswith(
        "— write 'memory-type.resource-policy.nri.io/pod', which means the same"
    )
    run = lint(text=POD.replace("packed", "hide"))
    assert run.exit_code == 0
    assert run.output.startswith("standard input:7:5: advice: memory-type.cri-resource-manager")


def test_a_term_that_pools_meet_for_want_of_a_label_is_advice() -> None:
    rule = "{key: socket, operator: NotIn, values: ['0']}"
    required = f"{{nodeSelectorTerms: [{{matchExpressions: [{rule}]}}]}}"
    text = f"{{poolAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {required}}}}}"
    pod = POD.replace("smt.pinfold.dev/pod: packed", f'affinity.pinfold.dev/pod: "{text}"')
    for arguments in ((), ("--machine", "socket:2 core:4 mem:4G")):
        run = lint(*arguments, text=pod)
        assert run.exit_code == 0
        assert "advice: affinity.pinfold.dev/pod of default/shop/web: 'socket not in" in run.output
        assert "add {key: socket, operator: Exists} to the same term" in run.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            CONFIGURATION,
            [(2, "configuration", "pinCpu: unknown field — did you mean 'pinCPU'?")],
            id="a configuration",
        ),
        pytest.param(
            SCENARIOS,
            [
                (4, "scenario", "rollout: configuration: pinCpu: unknown field"),
                (7, "scenario", "rollout: smt.pinfold.dev/pod of default/shop"),
                (12, "scenario", 'rollout: cpus["web" ==: line 1, column'),
            ],
            id="scenarios",
        ),
        pytest.param(
            "scenarios: [{id: a, steps: [{do: fly}, {do: create_pod}]}]\n",
            [(1, "scenario", "scenarios[0].steps[1]")],
            id="a scenario that cannot be run",
        ),
        pytest.param(
            "scenarios: [{id: a, steps: [{do: fly}, {do: expct, that: ['1 == 2']}]}]\n",
            [(1, "scenario", "unknown step 'expct' — did you mean 'expect'?")],
            id="a scenario with a step that is misspelt",
        ),
        pytest.param(
            "scenarios:\n- id: a\n  steps:\n  - {do: start}\n  - do: create_pod\n    pod: b\n"
            "    annotatoins: {c: d}\n    containers:\n    - {name: e, cpu_limm: 2}\n",
            [
                (7, "scenario", "a: unknown field 'annotatoins' — did you mean 'annotations'?"),
                (9, "scenario", "a: unknown field 'cpu_limm' — did you mean 'cpu_lim'?"),
            ],
            id="a scenario with fields that are misspelt",
        ),
        pytest.param(
            "scenarios:\n- {id: a, steps: [{do: expect, taht: []}]}\n"
            "- {id: a, kind: table, cases: []}\n",
            [(2, "scenario", "a: unknown field 'taht' — did you mean 'that'?")],
            id="a scenario with the id of a table that is passed over",
        ),
        pytest.param(
            "scenarios:\n- id: a\n  steps:\n  - {do: start}\n"
            "  - {do: update_pod, pod: b, cpu_req: 2, note: x, labels: {c: d}}\n"
            "  - {do: create_pod, pod: b, containers: [{name: c}], expect_update_error: no}\n"
            "  - {do: stop, pod: b}\n  - {do: fly, pod: b}\n",
            [
                (5, "scenario", "a: field 'labels' has no effect in update_pod — it has pod, name"),
                (6, "scenario", "a: field 'expect_update_error' has no effect in create_pod — it"),
                (7, "scenario", "a: field 'pod' has no effect in stop — it has none"),
            ],
            id="a scenario with fields that steps of other kinds have",
        ),
        pytest.param("a: [\n", [(2, "annotation", "manifest: not valid YAML")], id="no YAML"),
        pytest.param(
            f"{POLICY}spec:\n  pinCpu: true\n---\n{POD}---\n{POLICY}spec: {{agent: {{a: 1}}}}\n",
            [
                (4, "configuration", "pinCpu: unknown field — did you mean 'pinCPU'?"),
                (11, "annotation", "smt.pinfold.dev/pod of default/shop"),
                (12, "annotation", "memory-type.cri-resource-manager.intel.com"),
                (18, "configuration", "agent.a: unknown field — accepted: "),
            ],
            id="configurations among manifests",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n"
            "- apiVersion: config.nri/v1alpha1\n  kind: TopologyAwarePolicy\n"
            "  spec: {pinCpu: true}\n",
            [(6, "configuration", "pinCpu: unknown field")],
            id="configurations in a list, as kubectl prints them",
        ),
        pytest.param(
            "kind: List\nitems:\n- kind: List\n  items:\n"
            "  - apiVersion: config.nri/v1alpha1\n    kind: TopologyAwarePolicy\n"
            "    spec: {pinCpu: true}\n",
            [(7, "configuration", "pinCpu: unknown field")],
            id="configurations in a list inside another, as pods are found there",
        ),
    ],
)
def test_every_kind_of_file_is_checked(text: str, expected: list[tuple[int, str, str]]) -> None:
    found = document(text)
    assert [(one["line"], one["subject"]) for one in found] == [one[:2] for one in expected]
    for one, (_, _, message) in zip(found, expected, strict=True):
        assert message in one["message"]
    assert lint(text=text).exit_code == 1


def test_scenarios_are_shown_to_people_with_their_lines() -> None:
    lines = lint(text=SCENARIOS).output.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        *("standard input:4:26", "standard input:7:19", "standard input:12:7")
    ]


def test_github_shows_complaints_beside_the_lines() -> None:
    lines = lint("-o", "github", text=POD).output.splitlines()
    assert lines[0].startswith("::error file=standard input,line=6,col=5::smt.pinfold.dev/pod of ")
    assert lines[1].startswith("::notice file=standard input,line=7,col=5::memory-type.cri-")
    odd = POD.replace("packed", '"50%\\n,:"')
    (line, _) = lint("-o", "github", text=odd).output.splitlines()
    assert "%25" in line
    assert lint("-o", "github", text="pinCPU: true\n").output == ""


def test_a_sarif_log_says_the_same_as_the_json() -> None:
    run = lint("-o", "sarif", text=POD)
    assert run.exit_code == 1
    log = json.loads(run.stdout)
    (one,) = log["runs"]
    assert (log["version"], one["tool"]["driver"]["name"]) == ("2.1.0", "pinfold lint")
    rules = {rule["id"] for rule in one["tool"]["driver"]["rules"]}
    assert [(found["ruleId"] in rules, found["level"]) for found in one["results"]] == [
        *((True, "error"), (True, "note"))
    ]
    place = one["results"][0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "standard input"},
        "region": {"startLine": 6, "startColumn": 5},
    }
    assert [found["message"]["text"] for found in one["results"]] == [
        found["message"] for found in document(POD)
    ]


def test_a_file_that_cannot_be_read_is_status_two_beside_what_else_is_wrong(
    tmp_path: Path,
) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(POD)
    run = CliRunner().invoke(main, ["lint", str(tmp_path / "none"), str(pod), "-o", "json"])
    assert run.exit_code == 2
    found = json.loads(run.stdout)
    assert [one["level"] for one in found["complaints"]] == ["unreadable", "error", "advice"]
    assert (found["errors"], found["advice"]) == (2, 1)


def test_nothing_wrong_is_an_empty_document() -> None:
    run = lint("-o", "json", text="pinCPU: true\n")
    assert run.exit_code == 0
    assert json.loads(run.stdout) == {"complaints": [], "errors": 0, "advice": 0}


def test_expansion_is_for_people() -> None:
    run = lint("-o", "json", "--expand", text=POD)
    assert run.exit_code == 2
    assert "--expand is for people" in run.output


def test_every_fault_of_a_pod_is_told_however_many_it_has() -> None:
    pod = ["apiVersion: v1", "kind: Pod", "metadata:", "  name: web", "  annotations:"]
    keys = [f"    none-{number}.pinfold.dev/pod: x" for number in range(10, 40)]
    told = document("\n".join([*pod, *keys, "spec: {containers: [{name: a}, {name: b}]}"]))
    assert [one["line"] for one in told] == [*range(6, 36)]
    assert not [one["message"] for one in told if "more problems" in one["message"]]

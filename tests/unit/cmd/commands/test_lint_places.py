"""Where `pinfold lint` finds what is wrong: line and column of the key or the value.

In the texts a paragraph sign stands before each of these places, and is taken out before the check.
"""

import json
import re

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main

Place = tuple[int, int]


def marked(text: str) -> tuple[str, list[Place]]:
    """The text without its marks, and the places that they stood before."""
    lines = text.splitlines()
    places: list[Place] = []
    for row, line in enumerate(lines, start=1):
        parts = line.split("§")
        end = 0
        for part in parts[:-1]:
            end += len(part)
            places.append((row, end + 1))
    return text.replace("§", ""), places


def lint(text: str, *arguments: str) -> str:
    return CliRunner().invoke(main, ["lint", "-", *arguments], input=text).stdout


def templates(annotations: str) -> list[object]:
    """The annotations in the template of every kind that has pods."""
    deeper = "\n".join(f"  {line}" for line in annotations.splitlines())
    metadata = f"metadata:\n  name: shop\n  annotations:\n{deeper}\n"
    pod = f"{metadata}spec: {{containers: [{{name: web}}]}}\n"
    kinds = {
        "Pod": (),
        "Deployment": ("spec", "template"),
        "StatefulSet": ("spec", "template"),
        "ReplicaSet": ("spec", "template"),
        "ReplicationController": ("spec", "template"),
        "DaemonSet": ("spec", "template"),
        "Job": ("spec", "template"),
        "CronJob": ("spec", "jobTemplate", "spec", "template"),
        "PodTemplate": ("template",),
    }
    rows: list[object] = []
    for kind, path in kinds.items():
        text, margin = "", ""
        for step in path:
            text += f"{margin}{step}:\n"
            margin += "  "
        name = "metadata: {name: shop}\n" if path else ""
        text += "".join(f"{margin}{line}\n" for line in pod.splitlines())
        head = f"apiVersion: v1\nkind: {kind}\n{name}"
        rows.append(pytest.param(head + text, id=f"an annotation of a {kind}"))
    item = "".join(f"  {line}\n" for line in pod.splitlines())
    listed = f"kind: List\napiVersion: v1\nitems:\n- kind: Pod\n{item}"
    return [*rows, pytest.param(listed, id="an annotation of a pod in a list")]


POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    {}
spec:
  containers:
  - name: web
  - name: cache
"""
CONFIGURATIONS = [
    pytest.param("pinMemory: true\n§pinCpu: false\n", id="an unknown field"),
    pytest.param("§pinCPU: perhaps\n§pinMemory: 3\n", id="values of the wrong kind"),
    pytest.param("agent:\n  podResourceAPI:\n  §nodeResource:\n", id="a field without value"),
    pytest.param("agent:\n    §podResourceApi: true\n", id="an unknown field of a section"),
    pytest.param("agent: {podResourceAPI: true, §x: 1}\n", id="a field within braces"),
    pytest.param("reservedResources:\n  §cpu: 1x\n", id="an amount that is none"),
    pytest.param(
        "§cpuClasses:\n- name: a\n- name: b\n  §minFreq: fast\n", id="a field of a list's mapping"
    ),
    pytest.param("§cpuClasses:\n- name: a\n- §name: a\n", id="a name given twice"),
    pytest.param(
        "reservedPoolNamespaces:\n- kube-system\n- §[x\n".replace("[x", '"[x"'),
        id="an element of a list",
    ),
    pytest.param("pinCPU: true\n§pinCPU: true\n", id="a field written twice"),
    pytest.param(
        "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\nspec:\n  §pinCpu: true\n",
        id="a field of a whole resource",
    ),
    pytest.param(
        "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\nspec: {}\n§sepc: {}\n",
        id="a field beside the spec of a resource",
    ),
    pytest.param("control:\n  rdt:\n    §force: true\n", id="a field without effect"),
    pytest.param(
        "rules:\n- name: packed\n  annotations:\n    move.pinfold.dev: never\n"
        "    §smt.pinfold.dev: pak\n",
        id="an annotation that a rule gives",
    ),
    pytest.param(
        "rules:\n- name: odd\n  annotations: {§a.b/c: d}\n", id="a key that no rule can give"
    ),
    pytest.param(
        "rules:\n- name: odd\n  match:\n    §expression: {key: nam, operator: Exists}\n"
        "  annotations: {smt.pinfold.dev: pack}\n",
        id="an expression of a rule",
    ),
    pytest.param(
        "profiles:\n- name: near\n  addedAffinity:\n    podAffinity:\n"
        "      requiredDuringSchedulingIgnoredDuringExecution:\n"
        "      - labelSelector: {}\n        §topologyKey: shelf\n",
        id="a level that there is not",
    ),
    pytest.param("agent: {\n  podResourceAPI: ja\n}\n".replace("pod", "§pod"), id="lines of JSON"),
]
ON_A_MACHINE = [
    pytest.param("pinCPU: true\nreservedResources:\n  §cpu: 40\n", id="more cpus than there are"),
    pytest.param(
        "reservedResources:\n  §cpu: 'cpuset:0,99'\n", id="advice about cpus that are not there"
    ),
    pytest.param(
        "availableResources: {§memory: 'nodes:7'}\n".replace("nodes:7", "nodeset:7"),
        id="memory nodes that are not there",
    ),
]
ANNOTATIONS = [
    pytest.param("§smt.pinfold.dev/pod: packed", id="a value of one word is found by its key"),
    pytest.param("§smt.pinfold.dev/container.wbe: pack", id="a container that is not there"),
    pytest.param(
        "hide-hyperthreads.resource-policy.nri.io/pod: §true", id="a value without quotes"
    ),
    pytest.param("pinfold.dev/affinity: 'web: [§shed]'", id="a name in single quotes"),
    pytest.param(
        "pinfold.dev/affinity: '{''web'': [§''shed'']}'", id="a name after doubled quotes"
    ),
    pytest.param('pinfold.dev/affinity: "{\\"web\\": [§\\"shed\\"]}"', id="a name after escapes"),
    pytest.param(
        'pinfold.dev/affinity: "w\\u0065b:\\n- cache\\n- §shed"', id="lines made of escapes"
    ),
    pytest.param("pinfold.dev/affinity: |\n      web:\n      - cache\n      - §shed", id="a block"),
    pytest.param(
        "pinfold.dev/affinity: |2-\n        web:\n        - §shed", id="a block that is indented"
    ),
    pytest.param(
        "pinfold.dev/affinity: >-\n      {web: [cache,\n\n\n      §shed]}", id="a folded block"
    ),
    pytest.param(
        'pinfold.dev/affinity: "{web: [cache,\n\n      §shed]}"', id="quotes over several lines"
    ),
    pytest.param(
        'pinfold.dev/affinity: "{web: [ca\\\n      che, §shed]}"', id="an escaped end of a line"
    ),
    pytest.param(
        "pinfold.dev/affinity: !!str &here 'web: [§shed]'", id="a value with a tag and an anchor"
    ),
    pytest.param(
        "resource-policy.nri.io/affinity: |\n      web:\n      - match:\n          key: §nam\n"
        "          operator: Exists",
        id="a key of an expression",
    ),
    pytest.param(
        "pinfold.dev/affinity: |\n      # größe ✓\n      web: [cache, §shed]", id="after a comment"
    ),
    pytest.param(
        "§memory-type.cri-resource-manager.intel.com/pod: dram", id="advice about an old domain"
    ),
]
SCENARIO = """\
scenarios:
- id: rollout
  steps:
  - do: start
    config: {{{config}}}
  - do: create_pod
    pod: {pod}
    annotations:
      {annotation}
    containers:
    - name: web
    - name: cache
  - do: expect
    that:
    - {that}
"""
GOOD = {
    "config": "pinCPU: true",
    "pod": "shop",
    "annotation": "smt.pinfold.dev/pod: hide",
    "that": 'cpus["web"] == cpus["cache"]',
}


def scenario(**parts: str) -> str:
    return SCENARIO.format(**{**GOOD, **parts})


SCENARIOS = [
    pytest.param(scenario(config="pinMemory: true, §pinCpu: true"), id="a field of a step"),
    pytest.param(
        scenario(config="rules: [{name: a, annotations: {§smt.pinfold.dev: pak}}]"),
        id="a rule of a step's configuration",
    ),
    pytest.param(scenario(annotation="§smt.pinfold.dev/pod: packed"), id="an annotation"),
    pytest.param(
        scenario(
            annotation="resource-policy.nri.io/affinity: |\n        web:\n"
            "        - match: {key: §nam, operator: Exists}"
        ),
        id="a place in an annotation's block",
    ),
    pytest.param(scenario(that="§web =="), id="an expectation"),
    pytest.param(scenario(pod="§[a]"), id="a value of the wrong kind"),
    pytest.param(
        "scenarios:\n- id: a\n  steps:\n  - do: wait\n    duration: §soon\n", id="no duration"
    ),
]


@pytest.mark.parametrize(
    "text",
    [
        *CONFIGURATIONS,
        *(pytest.param(POD.format(one.values[0]), id=one.id) for one in ANNOTATIONS),
        *templates("  pinfold.dev/affinity: |\n    web: [§shed]"),
        *SCENARIOS,
    ],
)
def test_every_form_tells_line_and_column(text: str) -> None:
    written, places = marked(text)
    assert told_places(written) == places


@pytest.mark.parametrize("text", ON_A_MACHINE)
def test_what_does_not_fit_a_machine_is_found_at_its_field(text: str) -> None:
    written, places = marked(text)
    assert told_places(written, "--machine=socket:2 core:4 mem:4G") == places


def told_places(text: str, *arguments: str) -> list[Place]:
    """The places that all forms of the answer agree about."""
    complaints = json.loads(lint(text, *arguments, "-o", "json"))["complaints"]
    told = [(one["line"], one["column"]) for one in complaints]
    lines = re.findall(r"^standard input:(\d+):(\d+): ", lint(text, *arguments), re.MULTILINE)
    github = re.findall(r",line=(\d+),col=(\d+)::", lint(text, *arguments, "-o", "github"))
    for found in (lines, github):
        assert [(int(line), int(column)) for line, column in found] == told
    log = json.loads(lint(text, *arguments, "-o", "sarif"))
    results = log["runs"][0]["results"]
    regions = [one["locations"][0]["physicalLocation"]["region"] for one in results]
    assert [(one["startLine"], one["startColumn"]) for one in regions] == told
    return told

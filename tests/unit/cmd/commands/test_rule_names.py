"""Names of central rules as an operator meets them: before a pod runs, in the log, afterwards."""

import json
import logging
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.policy.manifests.manifest import parse_manifests

from ..control.asked_node import AskedNode

RULES: Final[dict[str, Any]] = {
    "rules": [
        {
            "name": "keep-apart",
            "match": {"labelSelector": {"matchLabels": {"app": "llm"}}},
            "annotations": {
                "affinity.pinfold.dev": (
                    "podAntiAffinity:\n"
                    "  requiredDuringSchedulingIgnoredDuringExecution:\n"
                    "  - labelSelector: {matchLabels: {app: batch}}\n"
                    "    topologyKey: socket\n"
                )
            },
        },
        {
            "name": "real-time",
            "match": {"pods": ["llm"]},
            "annotations": {"scheduling-class.resource-policy.nri.io": "rt"},
        },
    ]
}
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: job, labels: {app: batch}}
spec: {containers: [{name: job, resources: {limits: {cpu: 2, memory: 100M}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: llm, labels: {app: llm}}
spec: {containers: [{name: server, resources: {limits: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web}]}
"""


@pytest.fixture(name="node")
def fixture_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Generator[tuple[AskedNode, list[str]]]:
    """A daemon that runs the pods, and the lines of its log about what it decided."""
    caplog.set_level(logging.INFO)
    node = AskedNode(tmp_path, rules=RULES["rules"])
    node.start()
    node.run(*parse_manifests(PODS, "pods.yaml"))
    yield node, [one.getMessage() for one in caplog.records if "event=create" in one.getMessage()]
    node.stop()


def test_lint_names_the_rule_whose_annotation_does_not_suit_a_pod(tmp_path: Path) -> None:
    config, pods = tmp_path / "node.yaml", tmp_path / "pods.yaml"
    config.write_text(yaml.safe_dump(RULES))
    pods.write_text(PODS)
    arguments = ["lint", str(pods), f"--config={config}"]
    run = CliRunner().invoke(main, arguments)
    assert run.exit_code == 1
    first, *_ = run.output.splitlines()
    column = PODS.splitlines()[8].index("server") + 1
    assert first.startswith(
        f"{pods}:9:{column}: scheduling-class of default/llm/server, given by rule 'real-time': "
    )
    expanded = CliRunner().invoke(main, [*arguments, "--expand"]).output
    assert "# rule keep-apart, for default/llm/server\n" in expanded


def test_the_log_names_the_rules_of_whom_they_gave_something(
    node: tuple[AskedNode, list[str]],
) -> None:
    _, lines = node
    rules = {
        found[1]: re.findall(r" rules=(\S+)", line)
        for line in lines
        if (found := re.search(r" container=(\S+)", line))
    }
    assert rules == {"job": [], "server": ["keep-apart,real-time"], "web": []}


def test_explain_names_the_rule_and_what_came_of_it(node: tuple[AskedNode, list[str]]) -> None:
    asked, _ = node
    arguments = ["explain", "server", f"--control={asked.path}"]
    lines = CliRunner().invoke(main, arguments).output.splitlines()
    given = [one for one in lines if one.startswith("  annotation affinity.pinfold.dev: ")]
    assert [one.rpartition(", ")[2] for one in given] == ["given by rule 'keep-apart'"]
    problem = "  problem: scheduling-class of default/llm/server, given by rule 'real-time': "
    assert any(one.startswith(problem) for one in lines)
    document = json.loads(CliRunner().invoke(main, [*arguments, "-o", "json"]).output)
    (rule,) = document["rules"]
    assert (rule["kind"], rule["matches"]) == ("required", ["default/job/job"])
    places = {one["pool"]: one["dropped"] for one in document["candidates"]}
    at_job = asked.client.explain("job").pool
    assert at_job is not None
    dropped = places[at_job]
    assert dropped["wanted"] == "a socket without default/job/job"

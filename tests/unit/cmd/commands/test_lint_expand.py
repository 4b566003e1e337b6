"""`pinfold lint --expand`: the rules that the configuration adds, as an author would write them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

CONFIG = "racks: {rack1: {numa: {enabled: true, requireRackAffinity: true}}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {LABEL: rack1}}
spec: {containers: [{name: main}]}
"""
EXPANSION = """\
---
# racks.rack1.numa, for WHOM
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector:
      matchLabels: {pinfold.dev/rack: rack1}
    topologyKey: numa
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector:
      matchExpressions:
      - {key: pinfold.dev/rack, operator: Exists}
      - key: pinfold.dev/rack
        operator: NotIn
        values: [rack1]
    topologyKey: numa
"""


def lint(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", "--expand", *arguments])


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return str(path)


def test_a_configuration_is_expanded_whole(config: str) -> None:
    result = lint(config)
    assert result.exit_code == 0
    racks, replicas = result.stdout.split("---\n# antiAffinity.numa, for ")
    assert racks == EXPANSION.replace("WHOM", "pods with pinfold.dev/rack=rack1")
    assert replicas.startswith("pods with pinfold.dev/resource-set exists\npodAntiAffinity:\n")


@pytest.mark.parametrize(
    ("label", "expansion"),
    [("pinfold.dev/rack", EXPANSION.replace("WHOM", "default/web")), ("app", "")],
)
def test_a_pod_is_shown_what_it_gets(
    tmp_path: Path, config: str, label: str, expansion: str
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace("LABEL", label))
    result = lint(str(path), "--config", config)
    assert result.exit_code == 0
    assert result.stdout == expansion


def test_a_faulty_configuration_has_no_expansion(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("racks: {a: {nmua: {}}}\n")
    result = lint(str(path))
    assert result.exit_code == 1
    assert "did you mean 'numa'?" in result.stdout
    assert "---" not in result.stdout


def test_annotations_by_rule_are_shown_with_the_rule(tmp_path: Path) -> None:
    node, pod = tmp_path / "node.yaml", tmp_path / "pod.yaml"
    node.write_text("rules: [{name: packed, annotations: {smt.pinfold.dev: pack}}]\n")
    pod.write_text(POD.replace("LABEL: rack1", "app: web"))
    result = lint(str(pod), f"--config={node}")
    assert (result.exit_code, result.stdout) == (
        0,
        "---\n# rule packed, for default/web/main\nannotations:\n  smt.pinfold.dev: pack\n",
    )


def test_a_fault_in_a_rule_is_found_without_a_machine(tmp_path: Path) -> None:
    node = tmp_path / "node.yaml"
    node.write_text("rules: [{name: packed, annotations: {smt.pinfold.dev: pak}}]\n")
    result = lint(str(node))
    assert result.exit_code == 1
    assert result.stdout.startswith(
        f"{node}:1:38: rules[0].annotations: smt.pinfold.dev: unknown use of threads 'pak'"
    )

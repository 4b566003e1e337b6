import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinfold.cmd.commands.demo import TWO_SOCKETS, command, play
from pinfold.cmd.commands.demo_pods import DEMO_PODS
from pinfold.cmd.commands.simulate import command as simulate
from pinfold.policy.configuration.config import Config
from pinfold.policy.manifests.manifest import parse_manifests
from pinfold.topology.made.spec import machine_from_spec

from .piped_text import piped

PODS = Path(__file__).parents[4] / "configs" / "pods"


def places(text: str) -> dict[str, tuple[str, str, str]]:
    """For each container its NUMA node, cpus and memory, read off a drawn tree."""
    found: dict[str, tuple[str, str, str]] = {}
    pool = ""
    for line in text.splitlines():
        heading = re.search(r"(root|socket #\d|NUMA node #\d):", line)
        leaf = re.search(r"\[[\w-]+/(\w+)\] cpus ([\d,-]+) shared; memory ([\d,-]+); .+", line)
        if heading:
            pool = heading[1]
        elif leaf:
            found[leaf[1]] = (pool, leaf[2], leaf[3])
    return found


def played(spec: str, *names: str) -> str:
    pods = [pod for name, text in DEMO_PODS if name in names for pod in parse_manifests(text, name)]
    return play(machine_from_spec(spec), Config(), pods)


def test_peter_is_with_the_sheep_and_far_from_the_wolf() -> None:
    where = places(played(TWO_SOCKETS, "peter-sheep-wolf.yaml"))
    assert where["peter"] == where["sheep"] == ("NUMA node #1", "4-7", "1")
    assert where["wolf"] == ("NUMA node #2", "8-11", "2")


def test_shorthand_pulls_together_and_pushes_apart() -> None:
    where = places(played(TWO_SOCKETS, "shorthand.yaml"))
    assert where["container3"] == where["container1"]
    sockets = {name: int(place[2]) // 2 for name, place in where.items()}
    assert sockets["container2"] != sockets["container3"]
    assert where["container4"][0] not in (where["container2"][0], where["container3"][0])


def test_every_container_has_its_reason() -> None:
    text = played(TWO_SOCKETS, "peter-sheep-wolf.yaml")
    assert (
        "[peter-sheep-wolf/peter] cpus 4-7 shared; memory 1; nearest to the containers it wants"
        " near, farthest from those it avoids (next best: NUMA node #0)" in text
    )


def test_container_that_does_not_fit_is_shown_with_the_reason() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: large}
spec:
  containers:
  - {name: one, resources: {limits: {cpu: 9, memory: 1M}}}
  - {name: two, resources: {limits: {cpu: 100m, memory: 1M}}}
"""
    machine = machine_from_spec("socket:1 numa:1 core:2 thread:1 mem:1G")
    text = play(machine, Config(), parse_manifests(pod, "pod"))
    assert text.splitlines()[-1].startswith("[large/one] refused: no pool has room for 9 excl")
    assert "rpc error" not in text
    assert set(places(text)) == {"two"}


def test_refused_init_container_keeps_its_pod_back_and_no_other() -> None:
    pods = """
apiVersion: v1
kind: Pod
metadata: {name: first}
spec:
  initContainers: [{name: setup, resources: {limits: {cpu: 9, memory: 1M}}}]
  containers: [{name: main}]
---
apiVersion: v1
kind: Pod
metadata: {name: second}
spec: {containers: [{name: other}]}
"""
    machine = machine_from_spec("core:2 mem:1G")
    text = play(machine, Config(), parse_manifests(pods, "pods"))
    assert set(places(text.replace("socket #0:", "NUMA node #0:"))) == {"other"}
    assert "[first/setup] refused: " in text
    assert "[first/main]" not in text


def test_fault_of_an_annotation_is_below_its_container() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata:
  name: tale
  annotations:
    resource-policy.nri.io/affinity: |
      peter:
      - match: {key: name, operator: Equal, values: [sheep]}
spec:
  containers: [{name: sheep}, {name: peter}, {name: wolf}]
"""
    text = play(machine_from_spec("core:4"), Config(), parse_manifests(pod, "pod"))
    lines = text.splitlines()
    peter = next(number for number, line in enumerate(lines) if "[tale/peter]" in line)
    assert "problem: resource-policy.nri.io/affinity of default/tale/peter:2:" in lines[peter + 1]
    assert text.count("problem: ") == 1


@pytest.mark.parametrize(("name", "text"), DEMO_PODS, ids=[name for name, _ in DEMO_PODS])
def test_manifests_are_the_ones_among_the_examples(name: str, text: str) -> None:
    assert (PODS / name).read_text(encoding="utf-8") == text


def test_command_shows_this_machine_and_one_with_two_sockets() -> None:
    run = CliRunner().invoke(command, [])
    assert run.exit_code == 0, run.output
    assert run.output.startswith("On this machine:\n")
    assert f"\n\nOn {TWO_SOCKETS}:\nroot: " in run.output


def test_command_shows_other_pods_on_another_machine() -> None:
    run = CliRunner().invoke(
        command, [f"--machine={TWO_SOCKETS}", str(PODS / "peter-sheep-wolf.yaml")]
    )
    assert run.exit_code == 0, run.output
    assert set(places(run.output)) == {"peter", "sheep", "wolf"}
    assert run.output.count("On ") == 1


def test_containers_are_in_natural_order() -> None:
    names = ["c10", "c9", "c1"]
    containers = ", ".join(f"{{name: {name}}}" for name in names)
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{containers}]}}"
    text = play(machine_from_spec("core:2 mem:1G"), Config(), parse_manifests(pod, "pod"))
    assert re.findall(r"\[p/(\w+)\]", text) == ["c1", "c9", "c10"]


def test_pods_may_come_out_of_a_pipe() -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main}]}}"
    with piped(pod) as name:
        shown = CliRunner().invoke(command, ["--machine", "core:2 mem:1G", name])
    assert shown.exit_code == 0, shown.output
    assert "[web/main]" in shown.output


@pytest.mark.parametrize("front", ["nri", "cri"])
@pytest.mark.parametrize(
    ("policy", "free"), [("off", "599.4 GiB free"), ("TieredReservation", "598.5 GiB free")]
)
def test_memory_requests_are_exact_where_the_kubelet_protects_memory(
    policy: str, free: str, front: str, tmp_path: Path
) -> None:
    resources = "{requests: {memory: 1500Mi}, limits: {memory: 3Gi}}"
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: cache}, spec: {containers: ["
    (path := tmp_path / "cache.yaml").write_text(
        f"{pod}{{name: store, resources: {resources}}}]}}}}"
    )
    machine = ("--machine", "socket:1 numa:2 core:4 mem:300G", "--memory-qos", policy)
    result = CliRunner().invoke(command, [*machine, "--runtime", front, str(path)])
    assert result.exit_code == 0, result.output
    assert free in result.output
    simulated = CliRunner().invoke(simulate, [*machine, "-o", "tree", str(path)])
    assert free in simulated.output

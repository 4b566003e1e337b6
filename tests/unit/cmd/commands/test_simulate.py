import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

SPEC = "socket:2 numa:2 core:2 thread:2 mem:2G"

MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    spec:
      containers: [{name: main, resources: {limits: {cpu: 2, memory: 100Mi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers: [{name: huge, resources: {limits: {cpu: 90, memory: 100Mi}}}]
"""

SCENARIOS = """
topologies:
  tiny: {machine: "socket:1 core:2 thread:2 mem:1G"}
scenarios:
- id: good
  topology: tiny
  steps:
  - {do: start, config: {reservedResources: {cpu: "cpuset:0"}}}
  - do: create_pod
    pod: p
    containers: [{name: c, cpu_req: 100m}]
  - {do: expect, that: ['cpus["c"] == {"cpu1", "cpu2", "cpu3"}']}
- id: bad
  topology: tiny
  steps:
  - {do: start, config: {}}
  - {do: expect, that: ["1 == 2", "len(2)", "3", "clos_freq(1) == 2", "True"]}
  - {do: fly_to_the_moon}
  - {do: container_exit, container: nobody}
- {id: table, kind: hint_score, cases: [1, 2]}
"""


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=text)


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    path = tmp_path / "pods.yaml"
    path.write_text(MANIFESTS)
    return str(path)


@pytest.fixture
def scenarios(tmp_path: Path) -> str:
    path = tmp_path / "scenarios.yaml"
    path.write_text(SCENARIOS)
    return str(path)


def test_manifests_are_one_scenario(manifests: str) -> None:
    result = run(manifests, "--machine", SPEC, "-o", "json")
    assert result.exit_code == 1, "a container is refused"
    (scenario,) = json.loads(result.stdout)["scenarios"]
    assert scenario["id"] == "manifests"
    assert scenario["topology"] == SPEC
    containers = scenario["containers"]
    assert list(containers) == ["default/web-0/main", "default/web-1/main", "huge"]
    first = containers["default/web-0/main"]
    assert first["refused"] is None
    assert first["cpus"] == first["exclusive"] == "4-5"
    assert (first["pool"], first["shared"], first["mems"]) == ("NUMA node #1", "", "1")
    assert (first["pod"], first["namespace"]) == ("web-0", "default")
    assert "90 exclusive CPUs" in containers["huge"]["refused"]
    assert (scenario["expectations"], scenario["skipped"], scenario["problems"]) == ([], [], [])


JOB_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template: {spec: {parallelism: 2, template: {spec: {containers: [{name: main}]}}}}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"


@pytest.mark.parametrize(
    ("text", "containers", "told"),
    [
        pytest.param(
            JOB_SET,
            ["main", "train-workers-0", "train-workers-3"],
            "-:2:1: JobSet 'train' is taken for 4 pods, as the counts in it tell"
            " — its operator may make others\n",
            id="pods of an operator's own kind are placed, and it is said how many are meant",
        ),
        pytest.param(
            SERVICE, [], "-: nothing to place — write pods or scenarios\n", id="nothing to place"
        ),
        pytest.param(MANIFESTS, ["web-0", "web-1", "huge"], "", id="what is known needs no words"),
    ],
)
def test_what_is_taken_for_pods_is_told(text: str, containers: list[str], told: str) -> None:
    result = run("-", "--machine", SPEC, "--allow-refusals", text=text)
    assert result.exit_code == 0
    assert result.stderr == told.replace("-:", "standard input:", 1)
    assert all(one in result.stdout for one in containers)


def test_json_has_exactly_the_keys_of_the_contract(manifests: str) -> None:
    document = json.loads(run(manifests, "--machine", SPEC, "-o", "json").stdout)
    assert list(document) == ["scenarios"]
    (scenario,) = document["scenarios"]
    assert set(scenario) == {
        "id", "topology", "containers", "expectations", "skipped", "updates", "problems",
    }  # fmt: skip
    for container in scenario["containers"].values():
        assert set(container) == {
            "pod", "namespace", "pool", "cpus", "exclusive", "shared", "mems", "decided_by",
            "refused", "unmet",
        }  # fmt: skip


def test_json_has_the_satisfied_weight_where_containers_wish_something(tmp_path: Path) -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: pair, annotations: {resource-policy.nri.io/affinity: "a: [b]"}}
spec: {containers: [{name: a}, {name: b}]}
"""
    manifest = tmp_path / "pair.yaml"
    manifest.write_text(pod)
    document = json.loads(run(str(manifest), "--machine", SPEC, "-o", "json").stdout)
    weight = document["scenarios"][0]["satisfied_weight"]
    assert set(weight) == {"score", "best_known", "scale"}
    assert weight["score"] == weight["best_known"] > 0


def test_a_note_that_replicas_share_is_told_once() -> None:
    text = """
apiVersion: v1
kind: Pod
metadata: {name: db, labels: {app: db}}
spec: {containers: [{name: c}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  template:
    metadata:
      annotations:
        affinity.pinfold.dev/pod: |
          podAntiAffinity:
            preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 4
              podAffinityTerm: {labelSelector: {matchLabels: {app: db}}, topologyKey: numa}
    spec: {containers: [{name: c}]}
"""
    result = run("-", "--machine", "socket:1 core:4 mem:1G", text=text)
    notes = [one for one in result.stdout.splitlines() if one.startswith("  note: ")]
    assert len(notes) == 1
    replicas = ", ".join(f"default/web-{number}/c" for number in range(4))
    assert notes[0].startswith(f"  note: {replicas} and 2 more: preferred anti-affinity at numa")


def test_json_is_the_same_every_time(manifests: str) -> None:
    one, other = (run(manifests, "--machine", SPEC, "-o", "json").stdout for _ in range(2))
    assert one == other


def test_standard_input_is_read(manifests: str) -> None:
    from_file = run(manifests, "--machine", SPEC, "-o", "json").stdout
    assert run("-", "--machine", SPEC, "-o", "json", text=MANIFESTS).stdout == from_file


def test_the_configuration_counts(manifests: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("preferSharedCPUs: true\n")
    result = run(manifests, "--machine", SPEC, "--config", str(config), "-o", "json")
    first = json.loads(result.stdout)["scenarios"][0]["containers"]["default/web-0/main"]
    assert (first["exclusive"], first["shared"]) == ("", "4-7")


def test_the_table_says_why(manifests: str) -> None:
    result = run(manifests, "--machine", SPEC)
    lines = result.stdout.splitlines()
    assert lines[0] == f"manifests on {SPEC}:"
    assert lines[1].split() == ["container", "pool", "cpus", "memory", "why"]
    assert [one.split()[0] for one in lines[2:]] == ["big/huge", "web-0/main", "web-1/main"]
    assert "refused: no pool has room for 90 exclusive CPUs" in lines[2]
    assert "4-5 exclusive" in lines[3]
    assert lines[3].endswith("a tie: the first of equal pools (next best: NUMA node #2)")


def test_the_tree_shows_containers_in_their_pools(manifests: str) -> None:
    lines = run(manifests, "--machine", SPEC, "-o", "tree").stdout.splitlines()
    below = [one for one in lines if "[web-0/main]" in one]
    assert len(below) == 1
    assert "NUMA node #1" in lines[lines.index(below[0]) - 1]
    assert lines[-1].startswith("[big/huge] refused: ")


def test_the_tree_shows_what_is_left_of_each_pool(manifests: str) -> None:
    lines = run(manifests, "--machine", SPEC, "-o", "tree").stdout.splitlines()
    heads = [one for one in lines if re.match(r"[│├└─ ]*(root|socket #\d|NUMA node #\d): ", one)]
    assert [one.lstrip("│├└─ ") for one in heads] == [
        "root: sharable 1-3,6-7,10-15, reserved 0; dram 7.8 GiB free on node 0-3",
        "socket #0: sharable 1-3,6-7, reserved 0; dram 3.9 GiB free on node 0-1",
        "NUMA node #0: sharable 1-3, reserved 0; dram 2 GiB of node 0",
        "NUMA node #1: sharable 6-7; dram 1.9 GiB free on node 1",
        "socket #1: sharable 10-15; dram 3.9 GiB free on node 2-3",
        "NUMA node #2: sharable 10-11; dram 1.9 GiB free on node 2",
        "NUMA node #3: sharable 12-15; dram 2 GiB of node 3",
    ]


def test_a_pool_without_anything_left_says_so() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: a, resources: {limits: {cpu: 2, memory: 1Gi}}}
  - {name: b, resources: {limits: {cpu: 300m, memory: 1Mi}}}
"""
    lines = run("-", "--machine", "numa:2 core:2 mem:1G", "-o", "tree", text=pod).stdout
    assert "NUMA node #1: no cpus left; no dram free on node 1" in lines
    assert "NUMA node #0: sharable 1 (700m free), reserved 0; " in lines


@pytest.mark.parametrize("output", ["table", "tree"])
def test_names_are_in_natural_order_and_have_their_pods(output: str) -> None:
    names = [f"c{number}" for number in (10, 9, 1, 2)]
    containers = ", ".join(f"{{name: {name}}}" for name in names)
    pods = "---\n".join(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}, namespace: {space}}}\n"
        f"spec: {{containers: [{containers}]}}\n"
        for space, pod in (("a", "p10"), ("a", "p9"))
    )
    machine = ("--machine", "core:2 mem:1G", "-o", output)
    ordered = [f"p{pod}/c{number}" for pod in (9, 10) for number in (1, 2, 9, 10)]
    assert re.findall(r"p\d+/c\d+", run("-", *machine, text=pods).stdout) == ordered
    two = run("-", *machine, text=pods.replace("p9, namespace: a", "p9, namespace: b")).stdout
    assert re.findall(r"\w+/p\d+/c\d+", two) == [
        f"{pod}/c{number}" for pod in ("a/p10", "b/p9") for number in (1, 2, 9, 10)
    ]


@pytest.mark.parametrize(
    ("annotation", "cpus"),
    [
        pytest.param("a.b/c: d", "6 isolated", id="kernel-isolated ones"),
        pytest.param(
            'prefer-reserved-cpus.resource-policy.nri.io/pod: "true"', "0 reserved", id="reserved"
        ),
        pytest.param(
            'prefer-shared-cpus.resource-policy.nri.io/pod: "true"', "1-3 shared", id="shared"
        ),
        pytest.param(
            'cpu.preserve.resource-policy.nri.io/pod: "true"', "0-7 as they were", id="left alone"
        ),
    ],
)
def test_the_kind_of_the_cpus_is_said(annotation: str, cpus: str) -> None:
    pod = f"""
apiVersion: v1
kind: Pod
metadata: {{name: p, annotations: {{{annotation}}}}}
spec: {{containers: [{{name: c, resources: {{limits: {{cpu: 1, memory: 1Mi}}}}}}]}}
"""
    text = run("-", "--machine", "numa:2 core:4 mem:1G isolated:6-7", text=pod).stdout
    assert cpus in text


REFUSED = """
scenarios:
- id: refused
  steps:
  - do: create_pod
    pod: p
    containers: [{name: c, cpu_lim: 90, mem_lim: 1M}]
    EXPECTED
  - {do: delete_pods, pods: ALL}
"""


@pytest.mark.parametrize(
    ("expected", "arguments", "status"),
    [
        pytest.param("", [], 1, id="a refused container"),
        pytest.param("", ["--allow-refusals"], 0, id="a refused container, and that is allowed"),
        pytest.param("expect_create_error: no pool has room", [], 0, id="a refusal waited for"),
        pytest.param("expect_create_error: no such thing", [], 1, id="another one waited for"),
        pytest.param(
            "expect_create_error: no such thing",
            ["--allow-refusals"],
            1,
            id="expectations count although refusals are allowed",
        ),
    ],
)
@pytest.mark.parametrize("output", ["table", "json", "tree"])
def test_a_refused_container_is_status_1(
    expected: str, arguments: list[str], status: int, output: str
) -> None:
    text = REFUSED.replace("EXPECTED", expected)
    result = run("-", "--machine", SPEC, "-o", output, *arguments, text=text)
    assert result.exit_code == status
    is_told = not expected and not arguments
    message = "pinfold simulate: 1 container is refused — accept that with --allow-refusals\n"
    assert (message in result.stderr) is is_told
    if output != "json" and not expected:
        assert "step 0: default/p/c refused: no pool has room" in result.stdout


def test_help_and_manual_say_what_a_refusal_does_to_the_status() -> None:
    manual = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()
    for text in (" ".join(run("--help").output.split()), manual):
        assert "--allow-refusals" in text
        assert "expect_create_error" in text


def test_expectations_that_hold_are_status_0(scenarios: str) -> None:
    result = run(scenarios, "--only", "go*", "-o", "json")
    assert result.exit_code == 0
    (scenario,) = json.loads(result.stdout)["scenarios"]
    assert scenario["topology"] == "tiny"
    assert scenario["expectations"] == [
        {"step": 2, "expression": 'cpus["c"] == {"cpu1", "cpu2", "cpu3"}', "holds": True,
         "error": None}
    ]  # fmt: skip


def test_expectations_that_do_not_hold_are_status_1(scenarios: str) -> None:
    result = run(scenarios, "-o", "json")
    assert result.exit_code == 1
    good, bad = json.loads(result.stdout)["scenarios"]
    assert (good["id"], bad["id"]) == ("good", "bad")
    assert [(one["holds"], one["error"]) for one in bad["expectations"]] == [
        (False, None),
        (False, "line 1, column 1: 2 is not a collection"),
        (False, "is 3, neither true nor false"),
        (True, None),
    ]
    assert [one["step"] for one in bad["skipped"]] == [1, 2]
    assert bad["problems"] == ["step 3: no container 'nobody' runs"]
    text = run(scenarios).stdout
    assert "1 of 4 expectations hold" in text
    assert "step 1: 1 == 2 — does not hold" in text


def test_an_expectation_that_does_not_hold_is_shown_with_its_values(tmp_path: Path) -> None:
    file, junit = tmp_path / "s.yaml", tmp_path / "junit.xml"
    file.write_text(
        "scenarios:\n- id: one\n  topology: {machine: 'core:4'}\n  steps:\n"
        "  - {do: create_pod, pod: p, containers: [{name: c, cpu_lim: 1, mem_lim: 1M}]}\n"
        "  - {do: expect, that: ['len(cpus[\"c\"]) == 2']}\n"
    )
    shown = 'does not hold: len(cpus["c"]) is 1; cpus["c"] is cpus 1'
    for form in ("table", "tree"):
        result = run(str(file), "-o", form, "--junit", str(junit))
        assert f'  step 1: len(cpus["c"]) == 2 — {shown}\n' in result.stdout
    assert f'message="{shown.replace(chr(34), "&quot;")}"' in junit.read_text()
    (one,) = json.loads(run(str(file), "-o", "json").stdout)["scenarios"]
    # The contract of the document: these fields and no others.
    assert one["expectations"] == [
        {"step": 1, "expression": 'len(cpus["c"]) == 2', "holds": False, "error": None}
    ]


IN_PLACE = """
topologies: {small: {machine: "core:2"}}
scenarios:
- {id: a, topology: small, steps: [{do: expect, that: [len(all_cpus) == 2]}]}
- {id: b, topology: {machine: "core:4"}, steps: [{do: expect, that: [len(all_cpus) == 4]}]}
- {id: same, topology: {machine: "core:4"}, steps: []}
- id: c
  topology: {machine: "core:4", aliases: {fast: node0}}
  steps: [{do: expect, that: [fast == "node0"]}]
- id: d
  topology: {nodes: [{id: 0, cpus: 0-2}]}
  steps: [{do: expect, that: [len(all_cpus) == 3]}]
"""


MISSPELT = """
scenarios:
- {id: a, kind: table, cases: [], steps: [{do: expect, taht: []}]}
- id: a
  steps:
  - {do: expect, taht: ["False"], why: nobody}
  - {do: fly, taht: []}
"""


def test_a_field_of_a_step_that_is_much_like_another_is_told_and_changes_no_status() -> None:
    result = run("-", "--machine", "core:2", text=MISSPELT)
    assert result.exit_code == 0
    warning = "warning: standard input:6:18: a: unknown field 'taht' — did you mean 'that'?\n"
    assert result.stderr == warning


def test_a_scenario_may_have_its_topology_in_place() -> None:
    result = run("-", "-o", "json", text=IN_PLACE)
    assert result.exit_code == 0, result.output
    found = {one["id"]: one["topology"] for one in json.loads(result.stdout)["scenarios"]}
    assert found == {"a": "small", "b": "core:4", "same": "core:4", "c": "core:4 of c", "d": "d"}


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        pytest.param("a: [", [], "standard input:2:1: not valid YAML", id="no YAML"),
        pytest.param("", [], "is empty", id="nothing"),
        pytest.param("a: 1", [], "neither a scenario file nor a manifest", id="something else"),
        pytest.param(
            "scenarios:\n- {id: a, topology: b}",
            [],
            "standard input:2:21: scenarios[0].topology: no topology 'b' — known: none",
            id="no topology",
        ),
        pytest.param(
            "kind: Pod",
            [],
            "standard input:1:1: a manifest without 'apiVersion' — ",
            id="half a pod",
        ),
        pytest.param(
            "scenarios: [{steps: []}]",
            [],
            "scenarios[0].id: is missing — write a value for it",
            id="no id",
        ),
        pytest.param(
            "scenarios: [{id: [a]}]",
            [],
            "scenarios[0].id: is a list or a mapping — write a single value",
            id="a list for an id",
        ),
        pytest.param(
            MANIFESTS + "---\n" + MANIFESTS.rpartition("---")[2],
            [],
            "pod 'default/big' is defined twice — rename one",
            id="a pod twice",
        ),
        pytest.param(
            MANIFESTS.replace("containers: [{name: huge", "containers: [{name: huge}, {name: huge"),
            [],
            "two containers have the name 'huge' — rename one",
            id="a container twice",
        ),
        pytest.param(
            "topologies: {b: {machine: 'sock:1'}}\nscenarios: [{id: a, topology: b}]",
            [],
            "topologies.b: ",
            id="a bad topology",
        ),
        pytest.param(
            "scenarios: [{id: a, steps: [{do: start}]}]",
            ["--only", "z", "--machine", SPEC],
            "fits no scenario; known: a",
            id="nothing to run",
        ),
        pytest.param("{apiVersion: v1, kind: Pod}", [], "metadata.name: is missing", id="no name"),
        pytest.param(MANIFESTS, ["--machine", "core:0"], "core:0", id="a bad machine"),
    ],
)
def test_what_cannot_be_read_is_status_2(text: str, arguments: list[str], message: str) -> None:
    result = run("-", *arguments, text=text)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_not_there_is_status_2() -> None:
    result = run("/nowhere/at-all.yaml")
    assert result.exit_code == 2
    assert "/nowhere/at-all.yaml" in result.stderr


def test_a_topology_may_be_a_copy_of_sysfs_beside_the_file(tmp_path: Path) -> None:
    cpu = tmp_path / "copy" / "sys" / "devices" / "system" / "cpu"
    for number in range(2):
        topology = cpu / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{number}\n")
        (topology / "thread_siblings_list").write_text(f"{number}\n")
    for name in ("online", "present", "possible"):
        (cpu / name).write_text("0-1\n")
    path = tmp_path / "scenarios.yaml"
    path.write_text(
        "topologies: {copy: {sysfs: copy}}\n"
        "scenarios: [{id: a, topology: copy, steps: ["
        "{do: start, config: {reservedResources: {cpu: 'cpuset:0'}}},"
        "{do: create_pod, pod: p, containers: [{name: c}]},"
        '{do: expect, that: [\'cpus["c"] == {"cpu1"}\']}]}]\n'
    )
    result = run(str(path))
    assert result.exit_code == 0, result.output


MISWRITTEN = """
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


def test_faults_of_annotations_are_problems_that_change_no_status() -> None:
    result = run("-", "--machine", SPEC, "-o", "json", text=MISWRITTEN)
    assert result.exit_code == 0
    (scenario,) = json.loads(result.stdout)["scenarios"]
    (problem,) = scenario["problems"]
    assert problem.startswith("resource-policy.nri.io/affinity of default/tale/peter:2:")
    assert "unknown operator 'Equal' — did you mean 'Equals'?" in problem


@pytest.mark.parametrize("output", ["table", "tree"])
def test_faults_of_annotations_are_told_after_the_containers(output: str) -> None:
    result = run("-", "--machine", SPEC, "-o", output, text=MISWRITTEN)
    assert result.exit_code == 0
    last = result.stdout.splitlines()[-1]
    assert last.startswith("  problem: resource-policy.nri.io/affinity of default/tale/peter:2:")


def test_advice_is_no_problem() -> None:
    needless = MISWRITTEN.replace("operator: Equal, values: [sheep]", "operator: AlwaysTrue")
    result = run("-", "--machine", SPEC, text=needless)
    last = result.stdout.splitlines()[-1]
    assert last.startswith("  advice: resource-policy.nri.io/affinity of default/tale/peter:2:")
    assert "'key' has no effect beside AlwaysTrue" in last


def test_threads_that_are_hidden_are_not_shown() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {hide-hyperthreads.resource-policy.nri.io/pod: "true"}
spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Mi}}}]}
"""
    text = run("-", "--machine", "core:4 thread:2 mem:1G", text=pod).stdout
    assert "  2 exclusive  " in text


def test_what_a_container_is_refused_for_is_said_once() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {irq-affinity.resource-policy.nri.io/container.c: "claim: [x]"}
spec: {containers: [{name: c}]}
"""
    result = run("-", "--machine", SPEC, text=pod)
    assert result.exit_code == 1
    assert result.stdout.count("is not Guaranteed") == 1


def test_the_beginning_of_one_id_stands_for_it(scenarios: str) -> None:
    result = run(scenarios, "--only", "goo", "-o", "json")
    assert [one["id"] for one in json.loads(result.stdout)["scenarios"]] == ["good"]


def test_the_beginning_of_several_ids_stands_for_none(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.yaml"
    path.write_text("scenarios: [{id: one-1}, {id: one-2}, {id: one}]")
    assert run(str(path), "--only", "one", "--machine", SPEC).stdout.count("one") == 1
    result = run(str(path), "--only", "one-", "--machine", SPEC)
    assert result.exit_code == 2
    assert "--only 'one-' begins several ids; write one of: one-1, one-2" in result.stderr


def test_a_machine_no_scenario_uses_is_told(scenarios: str) -> None:
    result = run(scenarios, "--only", "good", "--machine", SPEC)
    assert result.exit_code == 0
    assert result.stderr == (
        "--machine: not used by scenarios good, which name their own topology\n"
    )
    assert run(scenarios, "--only", "good").stderr == ""


DEVICES = """
apiVersion: v1
kind: Pod
metadata: {name: net}
spec:
  containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi, intel.com/sriov: 1}}}]
"""


@pytest.mark.parametrize(
    ("names", "node"),
    [
        pytest.param("nic1", "0", id="a name"),
        pytest.param("gpu0,nic1", "0", id="the first by name of several"),
        pytest.param("nic*", "1", id="a pattern"),
    ],
)
def test_pods_get_the_devices_that_an_option_names(names: str, node: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("agent: {podResourceAPI: true}")
    machine = ("--machine", "socket:2 core:2 nic:1,0 gpu:0")
    device = ("--device", f"intel.com/sriov={names}")
    result = run("-", *machine, *device, "--config", str(config), "-o", "json", text=DEVICES)
    assert result.exit_code == 0, result.output
    (scenario,) = json.loads(result.stdout)["scenarios"]
    assert scenario["containers"]["c"]["mems"] == node


@pytest.mark.parametrize(
    ("device", "message"),
    [
        pytest.param("sriov", "write RESOURCE=NAME", id="no name"),
        pytest.param("a/sriov=,nic0", "write RESOURCE=NAME", id="an empty name"),
        pytest.param(
            "a/sriov=eth*", "--device a/sriov=eth*: the machine has no such device — its "
            "devices: gpu0, nic0", id="a pattern that fits nothing",
        ),
    ],
)  # fmt: skip
def test_an_option_that_names_no_device_is_bad_usage(device: str, message: str) -> None:
    machine = ("--machine", "socket:2 core:2 nic:1 gpu:0")
    result = run("-", *machine, "--device", device, text=DEVICES)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    "event",
    [
        "{do: update_config, config: {availableResources: {cpu: 'cpuset:4-7'}}}",
        "{do: set_online, cpus: 4-7}",
    ],
)
def test_a_rule_that_stops_holding_is_told_once(tmp_path: Path, event: str) -> None:
    rules = (
        "{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{labelSelector: {matchLabels: {app: noisy}}, topologyKey: socket}]}}"
    )
    path = tmp_path / "scenario.yaml"
    path.write_text(f"""
topologies: {{two: {{machine: "socket:2 core:4"}}}}
scenarios:
- id: reload
  topology: two
  steps:
  - {{do: start, config: {{reservedResources: {{cpu: 1}}}}}}
  - do: create_pod
    pod: noisy
    labels: {{app: noisy}}
    annotations: {{pool-name.pinfold.dev/pod: "socket #1"}}
    containers: [{{name: noisy, cpu_lim: 1, mem_lim: 1M}}]
  - do: create_pod
    pod: db
    annotations: {{affinity.pinfold.dev/pod: "{rules}", on-unsatisfiable.pinfold.dev/pod: fail}}
    containers: [{{name: db, cpu_lim: 1, mem_lim: 1M}}]
  - {event}
""")
    told = run(str(path)).stdout
    assert told.count("advice: unmet: anti-affinity at socket to app=noisy") == 1
    assert told.count("in one socket with default/noisy/noisy") == 1


def pods_with(rules: dict[str, str], at_level: str = "numa") -> str:
    """Pods, each with its labels and what its required rule is about, in a line each."""
    lines: list[str] = []
    for name, (kind, app) in ((name, rule.split()) for name, rule in rules.items()):
        term = f"{{labelSelector: {{matchLabels: {{app: {app}}}}}, topologyKey: {at_level}}}"
        text = f"{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}"
        about = f"labels: {{app: {name.rstrip('0123456789')}}}"
        annotations = f"annotations: {{affinity.pinfold.dev/pod: '{text}'}}"
        resources = "resources: {limits: {cpu: 1, memory: 1Mi}}"
        lines.append(
            f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {about}, {annotations}}},"
            f" spec: {{containers: [{{name: c, {resources}}}]}}}}"
        )
    return "\n---\n".join(lines)


@pytest.mark.parametrize(
    ("rules", "advice"),
    [
        pytest.param(
            {"web": "podAffinity cache", "cache": "podAffinity web"},
            [
                "unmet for a while: affinity at numa to app=cache (affinity.pinfold.dev/pod:1) of"
                " default/web/c: it wants a container that the rule is about"
            ],
            id="a rule that holds once the other one is there",
        ),
        pytest.param(
            {"web": "podAffinity cache", "cache": "podAntiAffinity web"},
            [
                "unmet: affinity at numa to app=cache (affinity.pinfold.dev/pod:1) of"
                " default/web/c: it wants cpus of one NUMA node with default/cache/c"
            ],
            id="a rule that does not hold for another reason by then",
        ),
        pytest.param(
            {f"s{number}": "podAntiAffinity s" for number in range(3)},
            [
                "unmet: anti-affinity at numa to app=s (affinity.pinfold.dev/pod:1) of"
                f" default/{one}/c: in one NUMA node with default/{other}/c"
                for one, other in (("s0", "s2"), ("s2", "s0"))
            ],
            id="rules of two, each told with the other one",
        ),
    ],
)
def test_each_rule_that_is_unmet_is_told_once_as_it_is_at_the_end(
    tmp_path: Path, rules: dict[str, str], advice: list[str]
) -> None:
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(pods_with(rules))
    result = run(str(manifest), "--machine", "socket:1 numa:2 core:4 mem:1G")
    found = [line.strip() for line in result.stdout.splitlines() if "unmet" in line]
    assert found == [f"advice: {one}" for one in advice]


def test_of_very_many_owners_of_a_rule_that_is_unmet_the_others_are_in_one_line() -> None:
    rules = {f"s{number}": "podAntiAffinity s" for number in range(8)}
    result = run("-", "--machine", "socket:1 core:16 mem:1G", text=pods_with(rules))
    found = [line.strip() for line in result.stdout.splitlines() if "unmet" in line]
    rule = "advice: unmet: anti-affinity at numa to app=s (affinity.pinfold.dev/pod:1) of"
    assert all(line.startswith(f"{rule} default/s") for line in found)
    owners = {line.removeprefix(f"{rule} ").partition(":")[0] for line in found[:-1]}
    assert owners == {f"default/s{number}/c" for number in range(4)}
    rest = ", ".join(f"default/s{number}/c" for number in range(4, 8))
    assert found[-1] == f"{rule} {rest}"


def _pods(*pods: tuple[str, int | str, dict[str, str]]) -> str:
    """Pods with so much cpu, and memory, requested and as limit."""
    return "\n---\n".join(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {
                    "containers": [
                        {"name": "a", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
                    ]
                },
            }
        )
        for name, cpu, annotations in pods
    )


def test_why_a_container_was_placed_elsewhere_is_not_said_of_where_it_is() -> None:
    text = _pods(("small0", "200m", {}), ("small1", "200m", {}), ("big", 6, {}))
    machine = "--machine", "numa:2 core:4 mem:4G"
    moved = "it was placed in NUMA node #1; what happened since has put it into socket #0"
    table = run("-", *machine, text=text).stdout
    (line,) = [one for one in table.splitlines() if "small0/a" in one]
    assert line.endswith(moved)
    assert table.count(moved) == 1
    document = json.loads(run("-", *machine, "-o", "json", text=text).stdout)
    containers = document["scenarios"][0]["containers"].values()
    assert {one["pod"]: one.get("notes") for one in containers} == {
        "big": None,
        "small0": [moved],
        "small1": None,
    }


def test_weights_for_those_who_came_later_are_noted() -> None:
    rule = (
        "a: [{scope: {operator: AlwaysTrue}, weight: 9,"
        " match: {key: pod/name, operator: Equals, values: [late]}}]"
    )
    first = {"pool-name.pinfold.dev/pod": "NUMA node #0", "pinfold.dev/affinity": rule}
    late = {"pool-name.pinfold.dev/pod": "NUMA node #1"}
    text = _pods(("first", 1, first), ("late", 1, late))
    table = run("-", "--machine", "numa:2 core:4 mem:4G", text=text).stdout
    assert "  note: default/first/a: affinity: in no one pool with default/late/a" in table

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.pinfold import main

SPEC = "socket:2 numa:2 core:2 thread:2 mem:2G isolated:14-15"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pools", *arguments])


@pytest.fixture
def first_reserved(tmp_path: Path) -> str:
    path = tmp_path / "first.yaml"
    path.write_text("reservedResources: {cpu: 'cpuset:0'}\n")
    return str(path)


def test_the_tree_shows_what_each_pool_could_give(first_reserved: str) -> None:
    result = run("--machine", SPEC, "--config", first_reserved)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "root: sharable 1-13, reserved 0, isolated 14-15; dram 8 GiB of node 0-3",
        "├─ socket #0: sharable 1-7, reserved 0; dram 4 GiB of node 0-1",
        "│  ├─ NUMA node #0: sharable 1-3, reserved 0; dram 2 GiB of node 0",
        "│  └─ NUMA node #1: sharable 4-7; dram 2 GiB of node 1",
        "└─ socket #1: sharable 8-13, isolated 14-15; dram 4 GiB of node 2-3",
        "   ├─ NUMA node #2: sharable 8-11; dram 2 GiB of node 2",
        "   └─ NUMA node #3: sharable 12-13, isolated 14-15; dram 2 GiB of node 3",
    ]


def test_json_lists_pools_by_id(first_reserved: str) -> None:
    result = run("--machine", SPEC, "--config", first_reserved, "-o", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["allowed"] == "0-15"
    assert (document["reserved"], document["isolated"]) == ("0", "14-15")
    assert [pool["id"] for pool in document["pools"]] == list(range(7))
    assert document["pools"][4] == {
        "id": 4,
        "name": "NUMA node #3",
        "kind": "numa node",
        "depth": 2,
        "parent": "socket #1",
        "cpus": "12-15",
        "isolated": "14-15",
        "reserved": "",
        "sharable": "12-13",
        "memory": {"dram": {"nodes": "3", "bytes": 2 << 30}},
        "labels": {
            "kind": "numa",
            "cpus": "4",
            "socket": "1",
            "die": "1/0",
            "numa": "3",
            "l3": "1",
            "memory.dram-gib": "2",
            "memory.types": "dram",
            "core-kind": "performance",
        },
    }
    assert document["processor_labels"] == {}
    assert document["pools"][-1]["parent"] is None


def test_amounts_of_memory_that_are_not_for_containers_are_shown(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "reservedResources: {cpu: 1, memory: 1Gi}\navailableResources: {memory: 6Gi}\n"
    )
    result = run("--machine", SPEC, "--config", str(config))
    last = "not for containers: 3 GiB of memory, on any of node 0-3"
    assert result.stdout.splitlines()[-1] == last
    result = run("--machine", SPEC, "--config", str(config), "-o", "json")
    assert json.loads(result.stdout)["withheld_memory_bytes"] == 3 << 30
    config.write_text("reservedResources: {cpu: 1}\n")
    result = run("--machine", SPEC, "--config", str(config), "-o", "json")
    assert json.loads(result.stdout)["withheld_memory_bytes"] == 0


def test_pools_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("reservedResources: {cpu: 'cpuset:8-9,99'}\n")
    result = run("--machine", SPEC, "--config", str(config))
    assert result.exit_code == 0
    assert "socket #1: sharable 10-13, reserved 8-9, isolated 14-15" in result.stdout
    assert f"warning: {config}:1:21: reservedResources.cpu: cpus 99" in result.stdout


def test_memory_that_is_kept_from_containers_is_in_no_pool(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "availableResources: {memory: 'exclude-nodeset:1'}\n"
        "reservedResources: {memory: 'nodeset:2'}\n"
    )
    result = run("--machine", SPEC, "--config", str(config), "-o", "json")
    document = json.loads(result.stdout)
    assert document["reserved_memory"] == "2"
    nodes = {pool["name"]: pool["memory"]["dram"]["nodes"] for pool in document["pools"]}
    assert (nodes["root"], nodes["socket #0"], nodes["socket #1"]) == ("0,3", "0", "3")
    assert (nodes["NUMA node #1"], nodes["NUMA node #2"]) == ("0", "3")


def test_a_configuration_that_does_not_fit_is_status_2(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("reservedResources: {cpu: 40}\n")
    result = run("--machine", SPEC, "--config", str(config))
    assert result.exit_code == 2
    assert "reservedResources.cpu" in result.stderr
    assert result.stdout == ""


SPEED_SELECT = (
    '{"supported": true, "packages": [{"id": 0, "cpus": "0-7", "cp_supported": true,'
    ' "tf_supported": true, "max_hp_cpus": 3}]}'
)
PUBLISHED = """
cpuClasses:
- {name: low, pctPriority: low}
- {name: high, pctPriority: high, publishExtendedResource: true}
sharedPoolCPUClass: low
"""


@pytest.mark.parametrize(
    ("environment", "resources", "warning"),
    [
        pytest.param(
            {"OVERRIDE_SST": SPEED_SELECT},
            {"cpuclass.resource-policy.nri.io/high": 3},
            "cpuClasses: publishExtendedResource of high: nothing is published by this version",
            id="with Speed Select",
        ),
        pytest.param(
            {"OVERRIDE_SST": ""},
            {},
            "cpuClasses: pctPriority, publishExtendedResource: no effect, this machine shows no"
            " Speed Select",
            id="without",
        ),
    ],
)
def test_what_speed_select_comes_to_depends_on_the_machine(
    tmp_path: Path, environment: dict[str, str], resources: dict[str, int], warning: str
) -> None:
    path = tmp_path / "published.yaml"
    path.write_text(PUBLISHED)
    arguments = ["pools", "--machine", SPEC, "--config", str(path), "-o", "json"]
    result = CliRunner(env=environment).invoke(main, arguments)
    document = json.loads(result.stdout)
    assert document["extended_resources"] == resources
    (said,) = document["warnings"]
    assert said.startswith(f"{path}:2:1: {warning}")

"""Conflicts about cpusets: the kubelet's own managers, and what runc cannot do."""

import json
from pathlib import Path

import pytest

from pinfold.cmd.daemon.kubelet_managers import read_managers
from pinfold.policy.model.cpuset_conflicts import KubeletManagers, runc_warning
from pinfold.topology.made.spec import machine_from_spec

STATIC: dict[str, object] = {
    "policyName": "static",
    "defaultCpuSet": "0-3",
    "entries": {},
    "checksum": 1,
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, KubeletManagers(), id="no files, no managers"),
        pytest.param(
            {"cpu_manager_state": json.dumps(STATIC | {"policyName": "none"})},
            KubeletManagers(),
            id="the policy none sets nothing",
        ),
        pytest.param(
            {"cpu_manager_state": json.dumps(STATIC)},
            KubeletManagers(cpu="static"),
            id="the static CPU manager",
        ),
        pytest.param(
            {"memory_manager_state": '{"policyName": "Static"}'},
            KubeletManagers(memory="Static"),
            id="the static memory manager",
        ),
        pytest.param(
            {"cpu_manager_state": '{"policy', "memory_manager_state": "[1]"},
            KubeletManagers(),
            id="what cannot be read says nothing",
        ),
    ],
)
def test_managers_of_the_kubelet_are_read_from_its_state_files(
    tmp_path: Path, files: dict[str, str], expected: KubeletManagers
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert read_managers(tmp_path) == expected


def test_each_manager_is_named_with_what_to_do() -> None:
    cpu, memory = KubeletManagers(cpu="static", memory="Static").warnings()
    assert "'cpuManagerPolicy: none'" in cpu
    assert "/var/lib/kubelet/cpu_manager_state" in cpu
    assert "'memoryManagerPolicy: None'" in memory


def test_cpus_that_runc_refuses_are_told() -> None:
    assert runc_warning(machine_from_spec("socket:2 core:256 thread:2")) is None
    told = runc_warning(machine_from_spec("socket:2 core:513"))
    assert told is not None
    assert told.startswith("cpus 1024-1025: runc refuses cpusets with cpus above 1023")

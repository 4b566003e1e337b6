"""The words of the project's scenario files: what nobody reads would say nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pinfold.policy.text.yaml_fields import Field, read_fields

AMOUNTS = {"cpu_req", "cpu_lim", "mem_req", "mem_lim", "hugepages"}
CONTAINER = {*AMOUNTS, "name", "devices", "claims", "nvidia", "env", "cpuset", "restart_policy"}
POD = {"pod", "namespace", "labels", "annotations", "qos", "resources", "system_partition"}
STEPS = {
    "start": {"config", "env", "kubelet", "expect_start_error"},
    "stop": set[str](),
    "update_config": {"config", "expect_update_error"},
    "create_pod": {*POD, "init_containers", "containers", "expect_create_error"},
    "add_container": {"pod", "namespace", "container", "expect_create_error"},
    "delete_pods": {"namespace", "pods"},
    "container_exit": {"container"},
    "container_crash_restart": {"container"},
    "update_container": {*AMOUNTS, "container", "expect_update_error"},
    "update_pod": {*AMOUNTS, "pod", "namespace", "expect_update_error"},
    "set_online": {"cpus"},
    "wait": {"duration", "seconds"},
    "remember": {"name", "value"},
    "expect": {"that"},
}
FILES = sorted(Path(__file__).parent.glob("*.yaml"))


def unread(document: Field) -> Iterator[str]:
    for scenario in document["scenarios"].elements():
        yield from beyond(scenario, {"id", "title", "topology", "steps"})
        for step in scenario["steps"].elements():
            yield from beyond(step, {*STEPS[step["do"].text()], "do"})
            yield from beyond(step["resources"], AMOUNTS)
            containers = (*step["init_containers"].elements(), *step["containers"].elements())
            for one in containers:
                yield from beyond(one, CONTAINER)
            if step["do"].text() == "add_container":
                yield from beyond(step["container"], CONTAINER)


def beyond(one: Field, known: set[str]) -> Iterator[str]:
    for key, value in one.entries().items():
        if key not in known:
            yield f"{value.where}: {key}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_word_of_a_scenario_is_read(path: Path) -> None:
    (document,) = read_fields(path.read_text(), path.name)
    assert list(unread(document)) == []

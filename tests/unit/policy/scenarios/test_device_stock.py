"""Devices of a simulated machine: who gets which, and what that is to a placement."""

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.scenarios.device_stock import DeviceStock
from pinfold.policy.scenarios.result import ScenarioResult
from pinfold.policy.scenarios.scenario_file import build_topology, parse_scenarios
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

CONFIG = config_from_values({"agent": {"podResourceAPI": True}})
GPU = "example.com/gpu"


def container(name: str) -> Container:
    pod = Pod(id=PodId("p"), name="p")
    return Container(id=ContainerId(name), name=name, pod=pod)


def nodes(stock: DeviceStock, name: str, **wanted: int) -> list[str]:
    """The NUMA nodes of the devices that a container gets, one for each."""
    resources = {f"example.com/{resource}": count for resource, count in wanted.items()}
    equipped, _ = stock.equipped(container(name), resources, tells_places=True)
    return [str(hint.numa_nodes) for hint in equipped.hints]


def stock(spec: str, **names: list[str]) -> DeviceStock:
    return DeviceStock(
        machine_from_spec(spec).devices, {f"example.com/{one}": names[one] for one in names}
    )


def test_the_first_free_devices_are_given_out_and_taken_back() -> None:
    one = stock("numa:2 core:4 gpu:1,0,0")
    assert nodes(one, "a", gpu=1) == ["1"]
    assert nodes(one, "b", gpu=2) == ["0", "0"]
    assert nodes(one, "c", gpu=1) == []
    assert one.missing("default/p/c").endswith(f"{GPU}: wanted 1, available 0")
    one.release("default/p/a")
    assert nodes(one, "d", gpu=1) == ["1"]
    assert not one.missing("default/p/d")


def test_devices_are_counted_by_number_not_by_letter() -> None:
    one = stock("numa:2 core:4 gpu:" + ",".join(["0"] * 10 + ["1"]))
    assert nodes(one, "a", gpu=10) == ["0"] * 10
    assert nodes(one, "b", gpu=1) == ["1"]


def test_resources_of_two_names_share_the_devices() -> None:
    one = stock("numa:2 core:4 gpu:0,1 nic:1", small=["gpu1"], any=["*"])
    assert nodes(one, "a", any=1) == ["0"]
    assert nodes(one, "b", small=1) == ["1"]
    assert nodes(one, "c", any=1) == ["1"], "the network card is left"
    assert nodes(one, "d", any=1) == []


def test_a_container_that_runs_keeps_the_devices_its_hints_come_from() -> None:
    machine = machine_from_spec("numa:2 core:4 gpu:0,1")
    one, other = DeviceStock(machine.devices), DeviceStock(machine.devices)
    nodes(one, "x", gpu=1)
    second, _ = one.equipped(container("a"), {GPU: 1}, tells_places=True)
    other.adopt(second)
    assert nodes(other, "b", gpu=1) == ["0"]
    assert nodes(other, "c", gpu=1) == []


@pytest.mark.parametrize(
    ("resource", "tells_places", "advice"),
    [
        pytest.param("gpu", True, [], id="nothing where the places of devices count"),
        pytest.param(
            "gpu",
            False,
            ["the places of the kubelet's devices do not count on this node"],
            id="how to have the places count",
        ),
        pytest.param(
            "fpga",
            True,
            ["the machine has no such devices: placed as if there were none"],
            id="that the machine has none",
        ),
    ],
)
def test_advice_is_given(resource: str, tells_places: bool, advice: list[str]) -> None:
    wanted = {f"example.com/{resource}": 1}
    equipped, problems = stock("core:4 gpu:0").equipped(
        container("a"), wanted, tells_places=tells_places
    )
    assert [one.what for one in problems] == advice
    assert all(one.is_advice for one in problems)
    assert bool(equipped.hints) == (not advice)


STEPS = """
topologies:
  two:
    machine: "socket:2 core:4 mem:4G gpu:1 nic:0"
    devices: {example.com/fast-net: [nic0]}
scenarios:
- id: one
  topology: two
  steps:
  - do: create_pod
    pod: train
    init_containers: [{name: fetch, cpu_req: 1, devices: {example.com/gpu: 1}}]
    containers: [{name: train, cpu_lim: 2, mem_lim: 1G, devices: {example.com/gpu: 1}}]
  - do: create_pod
    pod: net
    containers: [{name: net, cpu_lim: 2, mem_lim: 1G, devices: {example.com/fast-net: 1}}]
  - {do: expect, that: ['node_ids(nodes["train"]) == {1}', 'node_ids(nodes["net"]) == {0}']}
  - {do: container_crash_restart, container: train}
  - do: create_pod
    pod: second
    expect_create_error: "too few devices — example.com/gpu: wanted 1, available 0"
    containers: [{name: second, devices: {example.com/gpu: 1}}]
  - {do: delete_pods, pods: [train]}
  - do: create_pod
    pod: third
    containers: [{name: third, cpu_lim: 2, mem_lim: 1G, devices: {example.com/gpu: 1}}]
  - {do: expect, that: ['node_ids(nodes["third"]) == {1}']}
"""


def run(text: str, config: Config) -> ScenarioResult:
    (document,) = read_fields(text, "steps.yaml")
    parsed = parse_scenarios(document)
    (scenario,) = parsed.scenarios

    def no_sysfs(path: str) -> Machine:
        raise AssertionError(path)

    topology = build_topology(parsed.topologies[scenario.topology], no_sysfs)
    return run_scenario(scenario, topology, config)


def test_containers_are_placed_near_their_devices_through_a_scenario() -> None:
    result = run(STEPS, CONFIG)
    assert [one for one in result.expectations if not one.holds] == []
    assert len(result.expectations) == 4
    assert result.problems == ()
    assert result.remarks == ()
    assert result.refusals == ()


def test_without_the_kubelets_word_devices_are_given_out_all_the_same() -> None:
    result = run(STEPS, Config())
    assert {one.what for one in result.remarks} == {
        "the places of the kubelet's devices do not count on this node"
    }
    assert result.expectations[-2].holds, "the second pod has no device left"

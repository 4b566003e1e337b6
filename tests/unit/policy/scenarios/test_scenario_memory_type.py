"""A cold start where the environment says that a node with cpus is PMEM."""

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.scenarios.scenario_file import Topology, parse_scenarios
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec

TOPOLOGY = Topology(machine=machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))
SCENARIO = """
scenarios:
- id: cold
  steps:
  - do: start
    config: {reservedResources: {cpu: 750m}}
    env: {OVERRIDE_SYS_MEMORY_TYPE: '{"2": "DRAM", "3": "PMEM"}'}
  - do: create_pod
    pod: pod0
    qos: guaranteed
    annotations:
      memory-type.resource-policy.nri.io/container.b: DRAM,PMEM
      cold-start.resource-policy.nri.io/container.b: "{ duration: 3s }"
    containers:
    - {name: a, cpu_req: 1, cpu_lim: 1, mem_req: 100M, mem_lim: 100M}
    - {name: b, cpu_req: 1, cpu_lim: 1, mem_req: 100M, mem_lim: 100M}
  - {do: expect, that: ['mems["b"] == {"node3"}', '"node3" not in mems["a"] or len(mems["a"]) > 1']}
  - {do: wait, seconds: 5}
  - {do: expect, that: ['mems["b"] == {"node2", "node3"}']}
"""


def test_a_container_starts_on_the_node_that_is_called_pmem_and_warms_up() -> None:
    (document,) = read_fields(SCENARIO, "cold.yaml")
    (scenario,) = parse_scenarios(document).scenarios
    result = run_scenario(scenario, TOPOLOGY, config_from_values({}))
    assert result.problems == ()
    assert [one.holds for one in result.expectations] == [True, True, True]

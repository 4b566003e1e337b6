"""Scenarios on machines with Speed Select: cpus change their class of service with containers."""

import textwrap

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.scenarios.result import ScenarioResult
from pinfold.policy.scenarios.scenario_facts import not_simulated
from pinfold.policy.scenarios.scenario_file import Topology, parse_scenarios
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.text.yaml_fields import read_fields
from pinfold.topology.made.spec import machine_from_spec

TOPOLOGY = Topology(machine=machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))

ENVIRONMENT = """
    OVERRIDE_SYS_CPUFREQ: '[{"cpus": "0-15", "min": 800000, "base": 2900000, "max": 3800000}]'
    OVERRIDE_SST: >-
      {"supported": true, "clos_count": 4, "packages": [
      {"id": 0, "cpus": "0-7", "tf_supported": true, "cp_supported": true, "max_hp_cpus": 2},
      {"id": 1, "cpus": "8-15", "tf_supported": true, "cp_supported": true, "max_hp_cpus": 2}]}
    OVERRIDE_SST_STATE_DIR: /nowhere
"""
CLASSES = """
    reservedResources: {cpu: 750m}
    sharedPoolCPUClass: shared
    reservedPoolCPUClass: reserved
    defaultExclusiveCPUClass: exclusive
    cpuClasses:
    - {name: shared, minFreq: min, maxFreq: base, pctPriority: low}
    - {name: reserved, minFreq: min, maxFreq: turbo}
    - name: exclusive
      minFreq: turbo
      maxFreq: turbo
      pctPriority: high
      publishExtendedResource: true
    - {name: class1, minFreq: min, maxFreq: base}
    - {name: class2, minFreq: min, maxFreq: base}
"""
START = f"- do: start\n  env:{ENVIRONMENT}  config:{CLASSES}"


def run(steps: str, start: str = START) -> ScenarioResult:
    steps = start + textwrap.dedent(steps)
    text = "scenarios:\n- id: one\n  steps:\n" + textwrap.indent(steps, "  ")
    (document,) = read_fields(text, "steps.yaml")
    (scenario,) = parse_scenarios(document).scenarios
    return run_scenario(scenario, TOPOLOGY, Config())


def pod(name: str, count: int, cpus: int, annotations: str = "{}") -> str:
    containers = ", ".join(
        f"{{name: {name}c{number}, cpu_req: {cpus}, cpu_lim: {cpus}, mem_lim: 10M}}"
        for number in range(count)
    )
    return (
        f"- {{do: create_pod, pod: {name}, qos: guaranteed, containers: [{containers}],"
        f" annotations: {annotations}}}\n"
    )


def expect(*expressions: str) -> str:
    return "".join(f"- {{do: expect, that: ['{one}']}}\n" for one in expressions)


def checked(result: ScenarioResult) -> list[str]:
    """The expectations that were judged; every one of them holds."""
    assert result.problems == ()
    assert [one for one in result.expectations if not one.holds] == []
    assert result.skipped == ()
    return [one.expression for one in result.expectations]


def test_limits_and_resources_are_there_before_any_container() -> None:
    expressions = (
        "clos_freq(0) == (3800000, 3800000)",
        "clos_freq(3) == (800000, 2900000)",
        "clos(all_cpus) == {3}",
        'extended_resources["cpuclass.resource-policy.nri.io/exclusive"] == 4',
        "len(extended_resources) == 1",
        'cpu_class({"cpu00"}) == {"reserved"}',
    )
    assert checked(run(expect(*expressions))) == list(expressions)


def test_exclusive_cpus_are_of_high_priority_until_their_container_is_gone() -> None:
    names = [f"pod0c{number}" for number in range(4)]
    remembered = "".join(
        f"- {{do: remember, name: {one}, value: 'cpus[\"{one}\"]'}}\n" for one in names
    )
    result = run(
        pod("pod0", 4, 1)
        + expect(*(f'clos(cpus["{one}"]) == {{0}}' for one in names))
        + expect(*(f'cpu_class(cpus["{one}"]) == {{"exclusive"}}' for one in names))
        + remembered
        + "- {do: delete_pods, pods: [pod0]}\n"
        + expect(*(f"clos({one}) == {{3}}" for one in names), "clos(all_cpus) == {3}")
    )
    assert len(checked(result)) == 13


def test_a_class_of_its_own_takes_a_container_out_of_the_default_one() -> None:
    annotations = (
        "{cpu-class.resource-policy.nri.io/container.pod1c0: class1,"
        " cpu-class.resource-policy.nri.io/container.pod1c1: class2}"
    )
    result = run(
        pod("pod1", 4, 2, annotations)
        + expect(
            'cpu_class(cpus["pod1c0"]) == {"class1"}',
            'cpu_class(cpus["pod1c1"]) == {"class2"}',
            'cpu_class(cpus["pod1c2"] | cpus["pod1c3"]) == {"exclusive"}',
            'clos(cpus["pod1c0"] | cpus["pod1c1"]) == {3}',
            'clos(cpus["pod1c2"] | cpus["pod1c3"]) == {0}',
        )
    )
    assert len(checked(result)) == 5


def test_classes_of_service_are_as_found_where_no_class_asks_for_any() -> None:
    start = f"- do: start\n  env:{ENVIRONMENT}  config: {{reservedResources: {{cpu: 1}}}}\n"
    result = run(
        expect("clos(all_cpus) == {0}", "clos_freq(0) == (0, 0)", "len(extended_resources) == 0"),
        start,
    )
    assert len(checked(result)) == 3


@pytest.mark.parametrize(
    "expression",
    ['clos(cpus["a"]) == {1}', "clos_freq(1) == (1, 2)", 'extended_resources["x"] == 1'],
)
def test_without_speed_select_it_is_passed_over_with_the_reason(expression: str) -> None:
    result = run(expect(expression), f"- do: start\n  config:{CLASSES}")
    assert result.expectations == ()
    (skipped,) = result.skipped
    assert skipped.reason.startswith(f"{expression}: this machine has no Speed Select, so there is")


def test_a_container_of_that_name_is_something_else() -> None:
    assert not not_simulated('cpus["clos"] == cpus["clos_freq"]', TOPOLOGY.machine)

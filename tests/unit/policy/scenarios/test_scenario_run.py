"""Steps of scenarios, one by one, on a machine of 16 cpus with cpu 0 reserved."""

import textwrap

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import QosClass
from pinfold.policy.model.grant import GrantKind
from pinfold.policy.scenarios.result import ContainerResult, ScenarioResult
from pinfold.policy.scenarios.scenario_file import Topology, parse_scenarios
from pinfold.policy.scenarios.scenario_run import ScenarioRun
from pinfold.policy.scenarios.simulation import run_scenario
from pinfold.policy.scenarios.step import CreatePod, Start
from pinfold.policy.text.yaml_fields import FieldError, read_fields
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.counted_calls import called_modules

TOPOLOGY = Topology(machine=machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"))
CONFIG = config_from_values({"reservedResources": {"cpu": "cpuset:0"}})
EXCLUSIVE = "qos: guaranteed, containers: [{name: a, cpu_req: 2, cpu_lim: 2, mem_lim: 1M}]"
SHARED = "qos: burstable, containers: [{name: b, cpu_req: 100m, cpu_lim: 200m}]"


def run(steps: str, config: Config = CONFIG) -> ScenarioResult:
    text = "scenarios:\n- id: one\n  steps:\n" + textwrap.indent(textwrap.dedent(steps), "  ")
    (document,) = read_fields(text, "steps.yaml")
    (scenario,) = parse_scenarios(document).scenarios
    return run_scenario(scenario, TOPOLOGY, config)


def the_one(result: ScenarioResult) -> ContainerResult:
    (only,) = result.containers.values()
    return only


def test_without_a_start_the_policy_runs_from_the_beginning() -> None:
    result = run(f"- {{do: create_pod, pod: p, {EXCLUSIVE}}}")
    assert the_one(result) == ContainerResult(
        name="a",
        pod="p",
        namespace="default",
        pool="NUMA node #1",
        cpus="4-5",
        exclusive="4-5",
        shared="",
        mems="1",
        decided_by="exclusive_pool",
        kind=GrantKind.EXCLUSIVE,
        reason="a tie: the first of equal pools (next best: NUMA node #2)",
    )
    assert result.problems == ()


def test_what_starts_before_the_policy_is_unrestricted_then_adopted() -> None:
    result = run(
        f"""
        - {{do: start, config: {{reservedResources: {{cpu: "cpuset:0"}}}}}}
        - do: stop
        - {{do: create_pod, pod: p, {SHARED}}}
        - {{do: expect, that: ['cpus["b"] == all_cpus', 'len(mems["b"]) == 4']}}
        - {{do: start, config: {{reservedResources: {{cpu: "cpuset:0"}}}}}}
        - {{do: expect, that: ['has_allocation("b")', 'cpus["b"] < all_cpus']}}
        """
    )
    assert [one.holds for one in result.expectations] == [True] * 4
    assert result.updates == 1
    assert result.problems == ()


def test_containers_of_one_name_are_told_apart_by_their_paths() -> None:
    result = run(
        f"""
        - {{do: create_pod, pod: p, {SHARED}}}
        - {{do: create_pod, pod: q, namespace: other, {SHARED}}}
        - {{do: expect, that: ['cpus["default/p/b"] != cpus["other/q/b"]', '"b" not in cpus']}}
        """
    )
    assert list(result.containers) == ["default/p/b", "other/q/b"]
    assert [one.holds for one in result.expectations] == [True, True]


@pytest.mark.parametrize("value", ["cpus", "[cpus, cpus]", "(cpus, 1)", "{1: cpus}"])
def test_what_is_remembered_of_all_containers_stays_as_it_was(value: str) -> None:
    of_b = {"cpus": 'then["b"]', "{1: cpus}": 'then[1]["b"]'}.get(value, 'then[0]["b"]')
    result = run(
        f"""
        - {{do: create_pod, pod: p, {SHARED}}}
        - {{do: remember, name: then, value: '{value}'}}
        - {{do: remember, name: wide, value: 'cpus["b"]'}}
        - {{do: create_pod, pod: q, {EXCLUSIVE}}}
        - {{do: create_pod, pod: r, {EXCLUSIVE.replace("name: a", "name: c")}}}
        - {{do: create_pod, pod: s, {EXCLUSIVE.replace("name: a", "name: d")}}}
        - {{do: create_pod, pod: t, {EXCLUSIVE.replace("name: a", "name: e")}}}
        - {{do: expect, that: ['{of_b} == wide', 'cpus["b"] != wide']}}
        """
    )
    assert [(one.holds, one.error) for one in result.expectations] == [(True, None)] * 2


def test_changes_to_others_are_counted() -> None:
    result = run(
        f"""
        - do: create_pod
          pod: p
          qos: burstable
          containers: [{{name: wide, cpu_req: 7, cpu_lim: 15}}]
        - {{do: create_pod, pod: q, {EXCLUSIVE}}}
        - {{do: delete_pods, pods: [q]}}
        - {{do: delete_pods, pods: ALL}}
        """
    )
    assert result.updates == 2
    assert result.containers == {}


def test_a_pod_without_class_has_that_of_kubernetes() -> None:
    (document,) = read_fields(
        "scenarios: [{id: a, steps: [{do: create_pod, pod: p, labels: {app: x},"
        " containers: [{name: c, cpu_lim: 1, mem_lim: 1Gi}]}]}]",
        "steps.yaml",
    )
    (scenario,) = parse_scenarios(document).scenarios
    (step,) = scenario.steps
    assert isinstance(step, CreatePod)
    assert step.pod.qos is QosClass.GUARANTEED
    assert step.pod.labels == {"app": "x"}


def test_a_refused_container_is_listed_until_its_pod_goes() -> None:
    steps = "- {do: create_pod, pod: p, qos: guaranteed, containers: [{name: a, cpu_lim: 30}]}\n"
    result = run(steps)
    assert the_one(result).refused is not None
    assert (the_one(result).cpus, the_one(result).pool) == ("", "")
    assert result.problems == ()
    assert run(steps + "- {do: delete_pods, pods: ALL}").containers == {}


def test_what_a_machine_lacks_is_told_of_a_refused_container() -> None:
    rules = (
        "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        " [{labelSelector: {}, topologyKey: cluster}]}, podAffinity:"
        " {requiredDuringSchedulingIgnoredDuringExecution:"
        " [{labelSelector: {matchLabels: {app: none}}, topologyKey: cluster}]}"
    )
    told = f'{{affinity.pinfold.dev/pod: "{{{rules}}}", on-unsatisfiable.pinfold.dev/pod: fail}}'
    result = run(f"- {{do: create_pod, pod: p, annotations: {told}, {EXCLUSIVE}}}")
    assert the_one(result).refused
    assert the_one(result).notes == (
        "this machine has no clusters: what holds at a cluster holds at an L3 group",
    )


def test_a_refused_init_container_stops_its_pod() -> None:
    result = run(
        """
        - do: create_pod
          pod: p
          qos: guaranteed
          init_containers: [{name: first, cpu_lim: 30}]
          containers: [{name: main, cpu_lim: 1}]
        """
    )
    assert list(result.containers) == ["first"]


def test_requests_can_change() -> None:
    result = run(
        f"""
        - {{do: create_pod, pod: p, {EXCLUSIVE}}}
        - {{do: update_container, container: a, cpu_req: 3, cpu_lim: 3, mem_lim: 1M}}
        - {{do: expect, that: ['len(cpus["a"]) == 3']}}
        - do: update_container
          container: a
          cpu_req: 90
          cpu_lim: 90
          mem_lim: 1M
          expect_update_error: exclusive
        - {{do: expect, that: ['len(cpus["a"]) == 3']}}
        """
    )
    assert [one.holds for one in result.expectations] == [True] * 3
    assert result.problems == ()


@pytest.mark.parametrize(
    ("step", "holds", "error"),
    [
        pytest.param("cpu: 750x", True, None, id="the error waited for"),
        pytest.param("cpu: 3", False, "there was no error", id="no error"),
        pytest.param("cpu: 'cpuset:x'", False, "'cpuset:x'", id="another error"),
    ],
)
def test_expected_errors_are_expectations(step: str, holds: bool, error: str | None) -> None:
    result = run(
        f"""
        - do: start
          config: {{reservedResources: {{{step}}}}}
          expect_start_error: 750x
        """
    )
    (verdict,) = result.expectations
    assert verdict.expression == "expect_start_error: 750x"
    assert verdict.holds is holds
    if error is None:
        assert verdict.error is None
    else:
        assert error in str(verdict.error)


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        pytest.param("- {do: start, config: {nope: 1}}", "step 0: start_error: ", id="bad start"),
        pytest.param("- {do: start}\n- {do: start}", "step 1: start: the policy runs", id="twice"),
        pytest.param("- {do: delete_pods, pods: [x]}", "no pod default/x", id="no such pod"),
        pytest.param("- {do: container_exit, container: x}", "no container 'x'", id="no container"),
        pytest.param(
            f"- {{do: start}}\n- {{do: create_pod, pod: p, {SHARED}}}\n"
            "- {do: container_exit, container: p/b}",
            "no container 'p/b' runs — write 'default/p/b'",
            id="half a path",
        ),
        pytest.param(
            f"- {{do: create_pod, pod: p, {SHARED}}}\n- {{do: create_pod, pod: p, {SHARED}}}",
            "default/p is there already",
            id="a pod twice",
        ),
        pytest.param("- {do: update_config, config: {nope: 1}}", "update_error: ", id="bad update"),
        pytest.param(
            "- {do: start}\n- {do: stop}\n- {do: synchronize}", "does not run", id="no policy"
        ),
    ],
)
def test_steps_that_make_no_sense_are_problems(steps: str, problem: str) -> None:
    result = run(steps)
    (found,) = result.problems
    assert problem in found
    assert result.has_failed


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        pytest.param(("RUNNING", "RUNNING"), {"new"}, id="the newest of those that run"),
        pytest.param(("RUNNING", "EXITED"), {"old"}, id="the one that has not exited"),
        pytest.param(("EXITED", "CREATED"), {"new"}, id="the one that is about to run"),
        pytest.param(("EXITED", "EXITED"), set[str](), id="none where all have exited"),
    ],
)
def test_of_the_instances_of_a_container_one_that_runs_is_kept(
    states: tuple[str, str], kept: set[str]
) -> None:
    old, new = states
    result = run(
        f"""
        - {{do: create_pod, pod: p, {EXCLUSIVE}}}
        - do: synchronize
          container: a
          instances:
          - {{id: new, created_at: 200, state: {new}}}
          - {{id: old, created_at: 100, state: {old}}}
        - {{do: expect, that: ['allocation_ids("a") == set("{" ".join(kept)}".split())']}}
        """
    )
    assert [(one.holds, one.error) for one in result.expectations] == [(True, None)]
    assert len(result.containers) == len(kept)


def test_a_regular_expression_that_is_none_does_not_hold() -> None:
    result = run("- {do: start, config: {nope: 1}, expect_start_error: '('}")
    assert [one.holds for one in result.expectations] == [False]
    assert "not a regular expression" in str(result.expectations[0].error)


def test_what_was_remembered_stays() -> None:
    result = run(
        f"""
        - {{do: create_pod, pod: p, {EXCLUSIVE}}}
        - {{do: remember, name: had, value: 'cpus["a"]'}}
        - {{do: remember, name: lost, value: 'cpus["z"]'}}
        - {{do: delete_pods, pods: ALL}}
        - {{do: expect, that: ['len(had) == 2', 'lost == None']}}
        """
    )
    assert [one.holds for one in result.expectations] == [False, True, True]
    assert result.expectations[0].expression == 'lost = cpus["z"]'


def test_steps_that_cannot_be_simulated_are_skipped_with_a_reason() -> None:
    result = run(
        """
        - {do: fuzz, unsupported: too wild}
        - {do: dance}
        - {do: replace_state_file_by_symlink}
        - {do: start, expect_start_error: symbolic}
        """
    )
    assert [(one.step, one.reason.split(",")[0]) for one in result.skipped] == [
        (0, "too wild"),
        (1, "'dance' is not simulated"),
        (2, "the state file is the daemon's"),
        (3, "this start depends on a step that is not simulated"),
    ]
    assert result.expectations == ()


def test_interrupts_follow_the_containers_that_claim_them() -> None:
    result = run(
        """
        - do: set_interrupts
          affinity: 0-7
          interrupts:
          - {num: 4, description: PCI-MSI eth0-rx}
          - {num: 5, description: PCI-MSI eth1-rx}
        - {do: expect, that: ['irq["eth0"] == irq["eth1"]', 'len(irq["rx"]) == 8']}
        - do: create_pod
          pod: p
          qos: guaranteed
          annotations: {irq-affinity.resource-policy.nri.io/pod: "claim: ['*eth0*']"}
          containers: [{name: a, cpu_lim: 2, mem_lim: 1M}, {name: b, cpu_lim: 100m, mem_lim: 1M}]
        - {do: expect, that: ['irq["eth0"] == cpus["a"]', 'len(irq["eth1"]) == 8']}
        - do: create_pod
          pod: q
          qos: guaranteed
          annotations: {irq-affinity.resource-policy.nri.io/container.c: "claim: ['*eth0*']"}
          expect_create_error: without exclusive CPUs
          containers: [{name: c, cpu_lim: 100m, mem_lim: 1M}]
        - {do: expect, that: ['"eth9" in irq']}
        """
    )
    assert [one.holds for one in result.expectations] == [True] * 5 + [False]
    assert result.problems == ()


def test_interrupts_of_the_devices_of_containers_follow_them() -> None:
    result = run(
        """
        - do: set_interrupts
          affinity: 0-7
          interrupts:
          - {num: 4, description: IO-APIC 4-edge ttyS0}
          - {num: 8, description: IO-APIC 8-edge rtc0}
        - do: start
          env: {ENABLE_TEST_APIS: "1"}
          config: {controllableInterrupts: ["*ttyS*"]}
        - do: create_pod
          pod: p
          qos: guaranteed
          annotations:
            irq-affinity.resource-policy.nri.io/container.a: "devices: ['*']"
            test.topologyhints.resource-policy.nri.io: "t: {NUMAs: '0', IRQs: [4, 8]}"
          containers: [{name: a, cpu_lim: 1, mem_lim: 1M}]
        - {do: expect, that: ['irq["ttyS0"] == cpus["a"]', 'len(irq["rtc0"]) == 8']}
        - {do: delete_pods, pods: [p]}
        - {do: expect, that: ['len(irq["ttyS0"]) == 8']}
        """
    )
    assert [one.holds for one in result.expectations] == [True] * 3
    assert result.problems == ()


def test_what_cannot_be_read_of_hints_for_tests_is_told() -> None:
    result = run(
        """
        - {do: start, env: {ENABLE_TEST_APIS: "1"}}
        - do: create_pod
          pod: p
          annotations: {test.topologyhints.resource-policy.nri.io: "{a: {NUMAs: '1'}} }"}
          containers: [{name: a, cpu_req: 100m}]
        - {do: expect, that: ['nodes["a"] == {"node1"}']}
        """
    )
    assert [one.holds for one in result.expectations] == [True]
    assert ["left out from here on" in one.what for one in result.remarks] == [True]


def test_scheduling_classes_are_seen() -> None:
    result = run(
        """
        - do: start
          config:
            schedulingClasses: [{name: low, policy: other, nice: 5}]
            podQoSSchedulingClasses: {Burstable: low}
        - do: create_pod
          pod: p
          qos: burstable
          containers: [{name: a, cpu_req: 100m}]
        - {do: expect, that: ['sched["a"] == {"policy": "other", "nice": 5}']}
        """
    )
    assert [one.holds for one in result.expectations] == [True]


def test_classes_of_cpus_are_seen() -> None:
    result = run(
        """
        - do: start
          config:
            cpuClasses: [{name: calm, maxFreq: base}, {name: quick, maxFreq: turbo}]
            sharedPoolCPUClass: calm
            defaultExclusiveCPUClass: quick
        - do: create_pod
          pod: p
          qos: guaranteed
          containers: [{name: a, cpu_lim: 2, mem_lim: 1M}]
        - do: expect
          that:
          - cpu_class(cpus["a"]) == {"quick"}
          - cpu_class(all_cpus - cpus["a"]) == {"calm"}
        """
    )
    assert [one.holds for one in result.expectations] == [True, True]


def test_overrides_of_a_start_change_the_machine() -> None:
    result = run(
        """
        - do: start
          config: {reservedResources: {cpu: "cpuset:0"}}
          env:
            OVERRIDE_SYS_CACHES: '[{"level": 3, "cpusets": ["0-1", "2-3", "4-15"]}]'
        - {do: expect, that: ['"NUMA node #0/L3 cache #1" in zones']}
        """
    )
    assert [one.holds for one in result.expectations] == [True]


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        pytest.param("{steps: []}", "scenarios[0].id: is missing", id="no id"),
        pytest.param("{id: a, steps: [{pod: p}]}", "steps[0].do: is missing", id="no do"),
        pytest.param(
            "{id: a, steps: [{do: create_pod, pod: p, qos: gold}]}",
            "steps[0].qos: unknown class 'gold' — one of: guaranteed, burstable, besteffort",
            id="unknown class",
        ),
        pytest.param(
            "{id: a, steps: [{do: create_pod, pod: p, containers: [{name: c, cpu_req: 1x}]}]}",
            "steps[0].containers[0].cpu_req: ",
            id="no quantity",
        ),
        pytest.param(
            "{id: a, steps: [{do: expect, that: [1]}]}", "that[0]: '1' is not", id="no text"
        ),
        pytest.param("{id: a}, {id: a}", "two scenarios have the id 'a'", id="one id twice"),
        pytest.param(
            "{id: a, steps: [{do: synchronize, container: c, instances: [{id: i, state: GONE}]}]}",
            "instances[0].state: unknown state 'GONE' — one of: created, running, exited",
            id="unknown state",
        ),
    ],
)
def test_files_that_make_no_sense_are_errors(scenario: str, message: str) -> None:
    (document,) = read_fields(f"scenarios: [{scenario}]", "steps.yaml")
    with pytest.raises(FieldError) as caught:
        parse_scenarios(document)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("2", "steps.yaml:1:10: version: is not a version that this pinfold knows — write"),
        ("'1'", "version: '1' is not an integer"),
        ("1", ""),
        ("null", ""),
    ],
)
def test_a_file_of_another_version_is_an_error(version: str, message: str) -> None:
    (document,) = read_fields(
        f"version: {version}\nscenarios: [{{id: a, steps: []}}]", "steps.yaml"
    )
    if not message:
        assert parse_scenarios(document).scenarios
        return
    with pytest.raises(FieldError) as caught:
        parse_scenarios(document)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("{do: update_pod, pod: nobody, cpu_lim: 2}", "no pod default/nobody"),
        ("{do: add_container, pod: nobody, container: {name: c}}", "no pod default/nobody"),
    ],
)
def test_steps_about_pods_that_are_not_there_are_noted(step: str, problem: str) -> None:
    (noted,) = run(f"- {step}").problems
    assert problem in noted


def test_cpus_that_another_plugin_set_must_be_a_list_of_cpus() -> None:
    with pytest.raises(FieldError, match=r"steps.yaml:4:.*'4-' is not a list"):
        run("- {do: create_pod, pod: p, containers: [{name: a, cpuset: 4-}]}")


def test_a_container_that_is_added_and_does_not_fit_is_refused() -> None:
    result = run(
        f"""
        - {{do: create_pod, pod: p, {EXCLUSIVE}}}
        - do: add_container
          pod: p
          container: {{name: debugger-x7k2p, cpu_lim: 15, mem_lim: 1M}}
          expect_create_error: "no pool has room for 15 exclusive CPUs"
        """
    )
    assert [one.holds for one in result.expectations] == [True]
    assert result.containers["debugger-x7k2p"].refused


def test_a_claim_that_cannot_be_read_is_remarked() -> None:
    claim = "{name: a, cpuset: 4-5, env: {DRA_CPUSET_1: 4-}}"
    result = run(f"- {{do: create_pod, pod: p, containers: [{claim}]}}")
    assert any("DRA_CPUSET_1 of default/p/a" in str(one) for one in result.remarks)


def test_rules_that_stop_holding_are_told_where_nobody_may_be_moved() -> None:
    still = "duringExecution: {movesPerMinute: 0}"
    labels = 'poolLabels: [{pool: "NUMA node #2", labels: {disk: ssd}}]'
    result = run(
        f"""
        - {{do: update_config, config: {{{labels}, {still}}}}}
        - do: create_pod
          pod: p
          annotations:
            affinity.pinfold.dev/pod: |
              poolAffinity:
                requiredDuringSchedulingRequiredDuringExecution:
                  nodeSelectorTerms: [{{matchExpressions: [{{key: disk, operator: Exists}}]}}]
          containers: [{{name: a, cpu_lim: 1, mem_lim: 64Mi}}]
        - {{do: update_config, config: {{{still}}}}}
        - {{do: wait, duration: 1m}}
        """
    )
    assert the_one(result).pool == "NUMA node #2"
    assert [one.split(" of ")[0] for one in the_one(result).unmet] == [
        "a pool with disk exists (affinity.pinfold.dev/pod:3)"
    ]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_minute_of_moves_begins_anew_with_the_policy(is_restarted: bool) -> None:
    """As it does with the daemon."""

    def config(node: int) -> str:
        labels = f'poolLabels: [{{pool: "NUMA node #{node}", labels: {{disk: ssd}}}}]'
        moves = "duringExecution: {gracePeriod: 1s, movesPerMinute: 1}"
        return f'{{reservedResources: {{cpu: "cpuset:0"}}, {labels}, {moves}}}'

    restart = f"- {{do: stop}}\n        - {{do: start, config: {config(3)}}}"
    result = run(
        f"""
        - {{do: start, config: {config(2)}}}
        - do: create_pod
          pod: p
          annotations:
            affinity.pinfold.dev/pod: |
              poolAffinity:
                requiredDuringSchedulingRequiredDuringExecution:
                  nodeSelectorTerms: [{{matchExpressions: [{{key: disk, operator: Exists}}]}}]
          containers: [{{name: a, cpu_lim: 1, mem_lim: 1M}}, {{name: b, cpu_lim: 1, mem_lim: 1M}}]
        - {{do: update_config, config: {config(3)}}}
        - {{do: wait, duration: 3s}}
        {restart if is_restarted else ""}
        - {{do: wait, duration: 3s}}
        """
    )
    pools = sorted(one.pool for one in result.containers.values())
    assert pools == ["NUMA node #3" if is_restarted else "NUMA node #2", "NUMA node #3"]


def test_an_expectation_of_one_container_asks_the_engine_nothing_of_others() -> None:
    def asked(many: int) -> int:
        pods = "".join(
            f"- {{do: create_pod, pod: p{n}, containers: [{{name: b{n}}}]}}\n" for n in range(many)
        )
        (document,) = read_fields(
            "scenarios:\n- id: one\n  steps:\n"
            + textwrap.indent(pods + "- {do: expect, that: ['not quota[\"b0\"]']}", "  "),
            "steps.yaml",
        )
        *creations, expectation = parse_scenarios(document).scenarios[0].steps
        one = ScenarioRun(TOPOLOGY, CONFIG)
        for step in (Start(config=None, environment={}), *creations):
            one.take(step)
        called = called_modules(lambda: one.take(expectation))
        assert one.verdicts.expectations[0].holds
        return sum(module.startswith("pinfold.policy.engine") for module in called)

    assert asked(40) == asked(4)

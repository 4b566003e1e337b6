import re
from pathlib import Path

import msgspec
import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import (
    build_config,
    config_from_values,
    environment_document,
    format_config,
    parse_config_document,
    read_config,
    setting_document,
)
from pinfold.policy.configuration.section import yaml_name
from pinfold.policy.model.cpu_preference import BurstLevel, CpuPriority
from pinfold.policy.text.errors import ConfigError
from pinfold.policy.text.quantity import ByteQuantity, CpuQuantity

GIVEN = Path(__file__).parents[4].parent / "shared" / "scenarios" / "given.yaml"


def error_of(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read_config(text, "p.yaml")
    return str(raised.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "reservedResources:\n", "{}", "agent: {}"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    checked = read_config(text)
    assert checked.config == Config()
    assert checked.warnings == ()


def test_the_defaults_reserve_one_cpu() -> None:
    assert Config().reserved_resources.cpu_amount == CpuQuantity(1000)
    assert Config().available_resources.cpu_amount is None


def test_reserving_memory_alone_keeps_the_reserved_cpu() -> None:
    checked = read_config("reservedResources: {memory: 1Gi, cpu: null}", "p.yaml")
    assert checked.config.reserved_resources == Amounts(cpu="1", memory="1Gi")
    assert checked.config.reserved_resources.memory_amount == ByteQuantity(1 << 30)
    assert checked.warnings == ()


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("pin_cpu", "pinCPU"),
        ("prefer_isolated_cpus", "preferIsolatedCPUs"),
        ("default_cpu_priority", "defaultCPUPriority"),
        ("pod_qos_scheduling_classes", "podQoSSchedulingClasses"),
        ("pod_resource_api", "podResourceAPI"),
        ("sst_clos_id", "sstClosID"),
        ("use_pod_qos_as_default_class", "usePodQoSAsDefaultClass"),
        ("disabled_cstates", "disabledCstates"),
        ("l3_allocation", "l3Allocation"),
        ("cpu", "cpu"),
    ],
)
def test_fields_have_their_known_names_in_yaml(attribute: str, name: str) -> None:
    assert yaml_name(attribute) == name


def test_a_whole_resource_means_its_spec() -> None:
    text = """\
apiVersion: config.nri/v1alpha1
kind: TopologyAwarePolicy
metadata:
  name: default
  namespace: kube-system
spec:
  pinMemory: false
  unlimitedBurstable: System
  reservedResources:
    cpu: 750m
"""
    config = read_config(text).config
    assert not config.pin_memory
    assert config.unlimited_burstable is BurstLevel.SYSTEM
    assert config.reserved_resources.cpu == "750m"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param(
            "apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy\nspec: {}",
            2,
            "kind is 'BalloonsPolicy' — expected 'TopologyAwarePolicy'",
            id="another kind of resource",
        ),
        pytest.param(
            "kind: TopologyAwarePolicy\nspec: {}", 1, "apiVersion is missing", id="no version"
        ),
        pytest.param(
            "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\npinCPU: true",
            3,
            "unknown field 'pinCPU' — accepted: apiVersion, kind, metadata, spec, status",
            id="a field beside the spec",
        ),
        pytest.param(
            "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\nspec: 1",
            3,
            "spec: 1 is not accepted — write a mapping",
            id="a spec that is no mapping",
        ),
        pytest.param(
            "pinCPU: true\nagent:\n  podResourceApi: true\n",
            3,
            "agent.podResourceApi: unknown field — did you mean 'podResourceAPI'?"
            " accepted: nodeResourceTopology, podResourceAPI",
            id="an unknown field inside a section",
        ),
        pytest.param(
            "\nreservedResources:\n  cpu: 750x\n",
            3,
            "reservedResources.cpu: failed to parse quantity '750x'",
            id="an amount that is none",
        ),
        pytest.param("pinCPU: 'yes'", 1, "'yes' is not accepted — write true", id="quoted bool"),
        pytest.param("pinCPU: 1", 1, "1 is not accepted — write true or false", id="number, bool"),
        pytest.param("reservedResources: {cpu: true}", 1, "write text", id="a bool as an amount"),
        pytest.param("reservedPoolNamespaces: a", 1, "write a list", id="text where a list is due"),
        pytest.param(
            "reservedPoolNamespaces: ['a', '[b']",
            1,
            "reservedPoolNamespaces[1]: '[b' is no pattern",
            id="a glob that never closes",
        ),
        pytest.param(
            "sharedPoolCPUClass: a\ncpuClasses:\n- minFreq: 1GHz\n",
            3,
            "field 'name' is missing",
            id="a class with no name",
        ),
        pytest.param(
            "availableResources: {cpu: 4}",
            1,
            "'4' does not say which cpus",
            id="how many, not which",
        ),
        pytest.param("availableResources: {cpu: 'cpuset:'}", 1, "no cpus at all", id="no cpus"),
        pytest.param("reservedResources: {cpu: 0}", 1, "no cpu is reserved", id="none reserved"),
        pytest.param(
            "availableResources: {cpu: 'cpuset:0-3'}\nreservedResources: {cpu: 'cpuset:3-4'}",
            2,
            "cpus 4 are not in availableResources.cpu (0-3)",
            id="reserved cpus that are not available",
        ),
        pytest.param(
            "reservedResources:\n  memory: nodes:0\n",
            2,
            "reservedResources.memory: failed to parse memory 'nodes:0': unknown kind 'nodes'",
            id="no such kind of memory",
        ),
        pytest.param(
            "availableResources: {memory: 'nodeset:'}", 1, "no nodes at all", id="no nodes"
        ),
        pytest.param(
            "reservedResources: {memory: 'cpuset:'}",
            1,
            "reservedResources.memory: no cpus at all",
            id="the memory of no cpus",
        ),
        pytest.param(
            "availableResources: {memory: 'nodeset:0-1'}\n"
            "reservedResources: {memory: 'nodeset:1-2'}",
            2,
            "nodes 2 are not in availableResources.memory (0-1) — reserve available nodes",
            id="reserved memory that is not available",
        ),
        pytest.param(
            "availableResources: {memory: 'nodeset:0-1'}\n"
            "reservedResources: {memory: 'nodeset:0-1'}",
            2,
            "leaves no memory for other containers — reserve fewer nodes",
            id="all memory reserved",
        ),
        pytest.param("pinCPU: true\npinCPU: false", 2, "'pinCPU' is written twice", id="twice"),
        pytest.param("- pinCPU", 1, "expected a mapping", id="a list as the whole file"),
        pytest.param("pinCPU: !!python/name:os.system x", 1, "is not accepted", id="a tag"),
        pytest.param("agent: &a {}\nlog:\n  <<: *a", 3, "merge keys", id="a merge key"),
        pytest.param("agent: {{}: 1}", 1, "plain text — write a name", id="a key that is none"),
        pytest.param("pinCPU: true\nagent: ]", 2, "not valid YAML", id="not YAML at all"),
        pytest.param(
            "agent: &x {x: *x}", 1, "alias 'x' of an unknown anchor", id="an alias inside itself"
        ),
    ],
)
def test_a_fault_is_named_with_its_line_and_the_way_out(text: str, line: int, reason: str) -> None:
    complaint = error_of(text)
    assert complaint.startswith(f"p.yaml:{line}")
    assert reason in complaint
    assert "\n" not in complaint


def test_every_fault_has_its_own_line() -> None:
    complaint = error_of("pinCPU: maybe\npinMemory: maybe\ndefaultCPUPriority: top\n")
    assert [line.split(": ")[0] for line in complaint.splitlines()] == [
        "p.yaml:1:1",
        "p.yaml:2:1",
        "p.yaml:3:1",
    ]
    assert "write one of high, normal, low, none" in complaint


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        pytest.param(
            "pinCPUs: true\nsharedPoolCPUClass: gone\ncpuClasses: [{name: a}]",
            ["unknown field", 'unknown shared CPU class "gone"'],
            id="a slip of the pen hides no class that is not there",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, nice: x}, {name: b, nice: 99}]",
            ["'x' is not accepted", "99 is out of range"],
            id="one element of a list hides no other",
        ),
        pytest.param(
            "profiles: [{name: a, addedAffinity: {nodeAffinity: {}, nodeSelector: {}}}]",
            [
                "addedAffinity.nodeAffinity: unknown field — did you mean 'poolAffinity'?",
                "addedAffinity.nodeSelector: unknown field — did you mean 'poolAffinity'?",
            ],
            id="what Kubernetes says of nodes",
        ),
        pytest.param(
            "racks: {a: {zone: {enableHostAntiAffinity: true}, host: {enabled: true}}}",
            [
                "racks.a.zone: unknown field — did you mean 'socket'?",
                "racks.a.host: unknown field — did you mean 'numa'?",
            ],
            id="what is said of zones and hosts",
        ),
        pytest.param(
            "racks: {a: {socket: {enableHostAntiAffinity: 1, requireRackHostAntiAffinity: 1}}}",
            [
                "racks.a.socket.enableHostAntiAffinity: unknown field — did you mean"
                " 'enableNumaAntiAffinity'?",
                "racks.a.socket.requireRackHostAntiAffinity: unknown field — did you mean"
                " 'requireRackNumaAntiAffinity'?",
            ],
            id="and of hosts inside a zone",
        ),
        pytest.param(
            "cpuClases: [{name: a}]\nsharedPoolCPUClass: a",
            ["did you mean 'cpuClasses'?"],
            id="what is meant for the classes may well define them",
        ),
        pytest.param(
            "cpuClasses: [{nam: a}]\nsharedPoolCPUClass: a",
            ["did you mean 'name'?", "field 'name' is missing"],
            id="the name of a class may be what is misspelt",
        ),
        pytest.param(
            "cpuClasses: [{nam: a}]",
            ["did you mean 'name'?", "field 'name' is missing"],
            id="the class of shared cpus is asked for once there are names to choose from",
        ),
        pytest.param(
            "cpuClasses: x\nsharedPoolCPUClass: a",
            ["'x' is not accepted"],
            id="classes that cannot be read may be any",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: fif, priority: 5}]",
            ["did you mean 'fifo'?"],
            id="what a field means hangs on another one of its class",
        ),
        pytest.param(
            "availableResources: {cpu: 'cpuset:0-x'}\nreservedResources: {cpu: 'cpuset:9'}",
            ["failed to parse cpus"],
            id="reserved cpus are compared with known ones alone",
        ),
        pytest.param(
            "availableResources: [0-3]\nreservedResources: {cpu: 'cpuset:9', memory: 5x}",
            ["a list is not accepted", "failed to parse"],
            id="amounts that are none are told whatever is available",
        ),
        pytest.param(
            "pinCPU: true\npinCPU: maybe\nagent: 3",
            ["is written twice", "3 is not accepted"],
            id="of a field that is there twice only that is told",
        ),
        pytest.param(
            "kind: Pod\nspce: {}\nspec: {containers: []}",
            [
                "apiVersion is missing",
                "kind is 'Pod'",
                "unknown field 'spce' — did you mean 'spec'?",
            ],
            id="fields of another kind of resource are none of ours",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\ndata: {pinfold.yaml: 'pinCpu: true'}",
            ["kind is 'ConfigMap' — the configuration is a text in its data: give that alone"],
            id="the configuration of a DaemonSet in its ConfigMap",
        ),
        pytest.param(
            "apiVersion: config.nri/v1alpha1\nkind: TopologyAwarePolicy\nstat: 1\n"
            "spec: {pinCPU: 3}",
            ["unknown field 'stat'", "pinCPU: 3 is not"],
            id="fields beside the spec and in it",
        ),
        pytest.param(
            "reservedResources: {cpu: 0}\nagent: ]",
            ["not valid YAML"],
            id="a text that is no YAML says nothing of anything",
        ),
    ],
)
def test_faults_are_told_at_once_and_none_that_follows_from_another(
    text: str, complaints: list[str]
) -> None:
    found = error_of(text).splitlines()
    assert len(found) == len(complaints), found
    for line, complaint in zip(found, complaints, strict=True):
        assert complaint in line


def test_faults_of_all_sources_are_told_at_once() -> None:
    documents = [
        parse_config_document("pinCPU: 3\nagent: ]", "a.yaml"),
        parse_config_document("\npinMemory: 3", "b.yaml"),
        environment_document({"PINFOLD_AGENT__POD_RESOURCE_API": "[", "PINFOLD_PIN_CPU": "sure"}),
        setting_document("colocatePods"),
        setting_document("reservedResource.cpu=3"),
    ]
    with pytest.raises(ConfigError) as raised:
        build_config(documents)
    lines = str(raised.value).splitlines()
    for expected in (
        "a.yaml:2:8: not valid YAML",
        "b.yaml:2:1: pinMemory: 3 is not accepted",
        "PINFOLD_PIN_CPU: pinCPU: 'sure' is not accepted",
        "PINFOLD_AGENT__POD_RESOURCE_API:2:1: not valid YAML",
        "setting 'colocatePods': is not FIELD=VALUE — ",
        "setting 'reservedResource.cpu': reservedResource: unknown field — did you mean 'reserved",
    ):
        assert [line for line in lines if line.startswith(expected)], (expected, lines)
    assert len(lines) == 6


def test_an_unknown_field_lists_all_accepted_ones() -> None:
    complaint = error_of("pincpu: true")
    assert "did you mean 'pinCPU'?" in complaint
    for field in msgspec.structs.fields(Config):
        assert field.encode_name in complaint


def test_a_few_lines_of_aliases_do_not_stand_for_billions() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join(f'*a{i - 1}' for _ in range(10))}]" for i in range(1, 10)]
    assert "values, aliases expanded — write fewer" in error_of("\n".join(lines))


def test_letters_of_enums_may_be_of_any_case() -> None:
    assert read_config("defaultCPUPriority: High").config.default_cpu_priority is CpuPriority.HIGH


def test_amounts_may_be_written_as_numbers_and_stay_as_written() -> None:
    assert read_config("reservedResources: {cpu: 0.10}").config.reserved_resources.cpu == "0.10"
    assert config_from_values({"reservedResources": {"cpu": 2}}).reserved_resources.cpu == "2"


def test_drop_ins_override_field_by_field_and_keep_their_own_places() -> None:
    base = parse_config_document("agent:\n  podResourceAPI: true\nlog: {debug: [a, b]}\n", "a.yaml")
    over = parse_config_document("\nlog: {debug: [c]}\nagent: {nodeResourceTopology: 3}", "b.yaml")
    with pytest.raises(ConfigError, match=r"^b.yaml:3:9: agent.nodeResourceTopology: 3"):
        build_config([base, over])
    over = parse_config_document("log: {debug: [c]}\nagent: {nodeResourceTopology: no}", "b.yaml")
    config = build_config([base, over]).config
    assert config.agent.pod_resource_api
    assert not config.agent.node_resource_topology
    assert config.log.debug == ("c",)


def test_a_null_in_a_drop_in_restores_the_default() -> None:
    base = parse_config_document("pinCPU: false\nreservedResources: {cpu: 4}", "a.yaml")
    over = parse_config_document("pinCPU: null\nreservedResources:\n", "b.yaml")
    assert build_config([base, over]).config == Config()


def test_variables_set_fields_and_others_are_passed_over() -> None:
    document = environment_document(
        {
            "PINFOLD_PIN_CPU": "false",
            "PINFOLD_RESERVED_RESOURCES__CPU": "cpuset:0-1",
            "PINFOLD_RESERVED_POOL_NAMESPACES": "[a, b]",
            "PINFOLD_SERVICE_HOST": "10.0.0.1",
            "PIN_MEMORY": "false",
        }
    )
    assert build_config([document]).config == Config(
        pin_cpu=False,
        reserved_resources=Amounts(cpu="cpuset:0-1"),
        reserved_pool_namespaces=("a", "b"),
    )


def test_a_fault_in_a_variable_names_the_variable() -> None:
    document = environment_document({"PINFOLD_AGENT__POD_RESOURCE_API": "sure"})
    with pytest.raises(
        ConfigError, match=r"^PINFOLD_AGENT__POD_RESOURCE_API: agent\.podResourceAPI"
    ):
        build_config([document])


def test_settings_of_the_command_line_win() -> None:
    documents = [parse_config_document("pinCPU: true", "a.yaml"), setting_document("pinCPU=false")]
    assert not build_config(documents).config.pin_cpu
    with pytest.raises(ConfigError, match="setting 'pinCPU': is not FIELD=VALUE"):
        build_config([setting_document("pinCPU")])
    with pytest.raises(ConfigError, match="setting 'pinCPUs': pinCPUs: unknown field"):
        build_config([setting_document("pinCPUs=1")])


CLASSES = "cpuClasses: [{name: a}, {name: b}]\nsharedPoolCPUClass: a\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("cpuClasses: [{name: a}]", "sharedPoolCPUClass: cpuClasses need", id="shared"),
        pytest.param("sharedPoolCPUClass: a", "define it first", id="a class of no classes"),
        pytest.param(
            CLASSES + "reservedPoolCPUClass: c",
            'reservedPoolCPUClass: unknown reserved CPU class "c" — accepted: a, b',
            id="an unknown class of reserved cpus",
        ),
        pytest.param(
            "cpuClasses: [{name: a}]\nsharedPoolCPUClass: c",
            'sharedPoolCPUClass: unknown shared CPU class "c" — accepted: a',
            id="an unknown class of shared cpus",
        ),
        pytest.param(
            CLASSES + "defaultExclusiveCPUClass: c",
            'defaultExclusiveCPUClass: unknown default exclusive CPU class "c" — accepted: a, b',
            id="an unknown class of exclusive cpus",
        ),
        pytest.param(
            "cpuClasses: [{name: a}, {name: a}]\nsharedPoolCPUClass: a",
            "cpuClasses[1].name: 'a' is the name of two classes",
            id="a name used twice",
        ),
        pytest.param(
            "cpuClasses: [{name: a, minFreq: 3GHz, maxFreq: 2GHz}]\nsharedPoolCPUClass: a",
            "cpuClasses[0].minFreq: 3GHz is above maxFreq 2GHz",
            id="limits the wrong way round",
        ),
        pytest.param(
            "cpuClasses: [{name: a, minFreq: quick}]\nsharedPoolCPUClass: a",
            "failed to parse frequency 'quick'",
            id="a frequency that is none",
        ),
        pytest.param(
            "cpuClasses: [{name: a, pctPriority: high}, {name: b, sstClosID: 1}]\n"
            "sharedPoolCPUClass: a",
            "cpuClasses[1].sstClosID: cannot be mixed with pctPriority (class 'a')",
            id="managed and unmanaged Speed Select",
        ),
        pytest.param(
            "cpuClasses: [{name: a, pctPriority: high}, {name: b, pctPriority: high}]\n"
            "sharedPoolCPUClass: a",
            "cpuClasses[1].pctPriority: a second class of priority high",
            id="two high priority classes",
        ),
        pytest.param(
            "cpuClasses: [{name: a, pctMinFreq: 1GHz}]\nsharedPoolCPUClass: a",
            "pctMinFreq: needs a pctPriority",
            id="limits of managed Speed Select alone",
        ),
        pytest.param(
            "cpuClasses: [{name: a, publishExtendedResource: true}]\nsharedPoolCPUClass: a",
            "only Speed Select classes are published",
            id="publishing an ordinary class",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: fifo, priority: 100}]",
            "schedulingClasses[0].priority: 100 is out of range — write 1 to 99",
            id="a realtime priority out of range",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, nice: 20}]", "20 is out of range", id="nice out of range"
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: other, priority: 5}]",
            "policy other has no priority",
            id="a priority where there is none",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: rr}]",
            "schedulingClasses[0]: policy rr needs a priority — write priority: 1 to 99",
            id="a realtime class without a priority",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: fifo, priority: 0}]",
            "priority: 0 is out of range — write 1 to 99",
            id="a realtime priority of zero",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: fifo, priority: 5, nice: -21}]",
            "nice: -21 is out of range — write -20 to 19",
            id="a nice value out of range where there is none",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: deadline, deadline: 5000}]",
            "schedulingClasses[0]: policy deadline needs a runtime — write runtime in nanoseconds",
            id="a deadline class without a runtime",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: deadline, runtime: 5000}]",
            "schedulingClasses[0]: policy deadline needs a deadline — write"
            " deadline in nanoseconds",
            id="a deadline class without a deadline",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: deadline, runtime: 5000,"
            " deadline: 4000, period: 3000}]",
            "schedulingClasses[0].runtime: 5000 is above deadline 4000 — write less",
            id="a runtime above the deadline",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: deadline, runtime: 2000,"
            " deadline: 4000, period: 3000}]",
            "schedulingClasses[0].deadline: 4000 is above period 3000 — write less",
            id="a deadline above the period",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: deadline, runtime: 50, deadline: 4000}]",
            "runtime: 50 is out of range — write 1024 to 9223372036854775807",
            id="a runtime shorter than the kernel can count",
        ),
        pytest.param(
            "schedulingClasses: [{name: a, policy: other, runtime: 5000}]",
            "schedulingClasses[0].runtime: policy other has no runtime — leave it out",
            id="a runtime where there is none",
        ),
        pytest.param(
            "cpuClasses: [{name: a, minFreq: turbo, maxFreq: base}]\nsharedPoolCPUClass: a",
            "cpuClasses[0].minFreq: turbo is above maxFreq base — swap them",
            id="named limits the wrong way round",
        ),
        pytest.param(
            "cpuClasses: [{name: a, uncoreMinFreq: base, uncoreMaxFreq: Min}]\n"
            "sharedPoolCPUClass: a",
            "cpuClasses[0].uncoreMinFreq: base is above uncoreMaxFreq Min — swap them",
            id="uncore limits the wrong way round",
        ),
        pytest.param(
            "cpuClasses: [{name: a, freqGovernor: ''}]\nsharedPoolCPUClass: a",
            "cpuClasses[0].freqGovernor: is empty — name one, or leave it out",
            id="a governor without a name",
        ),
        pytest.param(
            "cpuClasses: [{name: a, energyPerformancePreference: ' '}]\nsharedPoolCPUClass: a",
            "cpuClasses[0].energyPerformancePreference: is empty",
            id="a preference without a name",
        ),
        pytest.param(
            "cpuClasses: [{name: a, disabledCstates: [C6, '']}]\nsharedPoolCPUClass: a",
            "cpuClasses[0].disabledCstates[1]: is empty — name one, or leave it out",
            id="an idle state without a name",
        ),
        pytest.param(
            "availableResources: {cpu: 'cpuset:0-3'}\nreservedResources: {cpu: 4001m}",
            "reservedResources.cpu: 5 cpus are more than the 4 available ones — reserve fewer",
            id="more cpus reserved than available",
        ),
        pytest.param(
            "availableResources: {cpu: 'cpuset:0-3'}\n"
            "reservedResources: {cpu: 'exclude-cpuset:0-7'}",
            "reservedResources.cpu: excludes all available cpus (0-3) — leave at least one",
            id="no available cpu left to be reserved",
        ),
        pytest.param(
            "availableResources: {cpu: 'exclude-cpuset:0-3'}\n"
            "reservedResources: {cpu: 'cpuset:3-4'}",
            "reservedResources.cpu: cpus 3 are excluded by availableResources.cpu — reserve",
            id="reserved cpus that are excluded",
        ),
        pytest.param(
            "availableResources: {memory: 1Gi}\nreservedResources: {memory: 2Gi}",
            "reservedResources.memory: 2Gi leaves nothing of availableResources.memory (1Gi)",
            id="more memory reserved than available",
        ),
        pytest.param(
            "namespaceSchedulingClasses: {x: a}", "unknown class 'a'", id="class of a namespace"
        ),
        pytest.param(
            "schedulingClasses: [{name: a}]\npodQoSSchedulingClasses: {besteffort: a, Best: a}",
            "podQoSSchedulingClasses.Best: unknown QoS class 'Best'",
            id="a QoS class there is not",
        ),
        pytest.param(
            "instrumentation: {prometheusExport: true, metricsExporter: otlp-grpc}",
            "excludes metricsExporter otlp-grpc",
            id="two ways of exporting metrics",
        ),
        pytest.param(
            "duringExecution: {gracePeriod: 5}",
            "5 is not accepted — write a duration with its unit, as in 5s",
            id="a period without a unit",
        ),
        pytest.param(
            "duringExecution: {gracePeriod: true}",
            "true is not accepted — write a duration with its unit, as in 30s",
            id="a period that is no time at all",
        ),
        pytest.param(
            "instrumentation: {reportPeriod: often}", "failed to parse duration", id="a period"
        ),
        pytest.param(
            "poolLabels: [{labels: {a: b}}]", "needs either pool or cpus", id="labels, no pool"
        ),
        pytest.param(
            "poolLabels: [{cpus: 1-x, labels: {a: b}}]",
            "poolLabels[0].cpus: '1-x'",
            id="labels, bad cpus",
        ),
    ],
)
def test_what_types_cannot_say_is_checked_too(text: str, reason: str) -> None:
    assert reason in error_of(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{policy: idle, nice: 17}", id="the kernel keeps it while idle"),
        pytest.param("{policy: fifo, priority: 99, nice: 0}", id="a nice value of zero is none"),
        pytest.param("{policy: other, priority: 0, runtime: 0}", id="zero stands for none"),
        pytest.param(
            "{policy: deadline, runtime: 2000, deadline: 2000}", id="the period is the deadline"
        ),
        pytest.param(
            "{policy: deadline, runtime: 1024, deadline: 1024, period: 1024}", id="all of the time"
        ),
    ],
)
def test_what_the_kernel_takes_of_a_scheduling_class_is_accepted(text: str) -> None:
    checked = read_config(f"schedulingClasses: [{{name: a, {text[1:-1]}}}]")
    assert [one.name for one in checked.config.scheduling_classes] == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        "cpuClasses: [{name: a, minFreq: base, maxFreq: 1kHz}]\nsharedPoolCPUClass: a",
        "cpuClasses: [{name: a, minFreq: turbo, maxFreq: TURBO}]\nsharedPoolCPUClass: a",
        "cpuClasses: [{name: a, uncoreMinFreq: turbo, uncoreMaxFreq: base}]\nsharedPoolCPUClass: a",
        "cpuClasses: [{name: a, freqGovernor: nosuch, disabledCstates: [C9]}]\n"
        "sharedPoolCPUClass: a",
        "cpuClasses: [{name: a, sstClosID: 1, publishExtendedResource: true}]\n"
        "sharedPoolCPUClass: a",
        "availableResources: {cpu: 'cpuset:0-3'}\nreservedResources: {cpu: 4}",
        "availableResources: {cpu: 'exclude-cpuset:0-3'}\nreservedResources: {cpu: 64}",
        "availableResources: {memory: 3Gi}\nreservedResources: {memory: 2Gi}",
    ],
)
def test_what_only_a_machine_can_tell_is_accepted(text: str) -> None:
    assert read_config(text).config != Config()


def test_all_fields_of_classes_are_read() -> None:
    text = """\
schedulingClasses:
- {name: rt, policy: fifo, priority: 42, flags: [reset-on-fork]}
- {name: idle, policy: idle, nice: 17, ioClass: be, ioPriority: 6}
namespaceSchedulingClasses: {batch: idle}
podQoSSchedulingClasses: {besteffort: idle, Guaranteed: rt}
cpuClasses:
- {name: slow, maxFreq: 2GHz, disabledCstates: [C6], turboPriority: 1}
- {name: fast, minFreq: base, maxFreq: turbo, freqGovernor: performance}
sharedPoolCPUClass: slow
defaultExclusiveCPUClass: fast
poolLabels: [{pool: 'NUMA node #*', labels: {rack: a}}, {cpus: 0-3, labels: {rack: b}}]
"""
    config = read_config(text).config
    assert [one.name for one in config.scheduling_classes] == ["rt", "idle"]
    assert config.cpu_classes[0].max_freq == "2GHz"
    assert config.pod_qos_scheduling_classes["besteffort"] == "idle"
    assert read_config(format_config(config)).config == config


def test_fields_without_effect_are_accepted_with_a_word() -> None:
    checked = read_config(
        "control:\n  rdt:\n    force: true\n  blockio:\n    enable: true\n", "p.yaml"
    )
    assert checked.config.control.blockio.enable
    assert [line.split(" — ")[0] for line in checked.warnings] == [
        "p.yaml:3:5: control.rdt.force: accepted, but has no effect"
    ]


@pytest.mark.parametrize(
    ("field", "rules"),
    [
        pytest.param(
            "requiredDuringSchedulingIgnoredDuringExecution",
            "{nodeSelectorTerms: [{matchExpressions: [EXPRESSION]}]}",
            id="required",
        ),
        pytest.param(
            "preferredDuringSchedulingIgnoredDuringExecution",
            "[{weight: 1, preference: {matchExpressions: [EXPRESSION]}}]",
            id="preferred",
        ),
    ],
)
@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("nuna", "did you mean 'numa'?"),
        ("disc", "did you mean 'disk'?"),
        ("numa", ""),
        ("disk", ""),
        ("cpu.flag/avx2", ""),
        ("memory.dram-gib", ""),
    ],
)
def test_a_label_that_no_pool_has_is_told_of_a_profile(
    field: str, rules: str, key: str, fix: str
) -> None:
    rules = rules.replace("EXPRESSION", f"{{key: {key}, operator: Exists}}")
    text = f"""
poolLabels: [{{cpus: 0-3, labels: {{disk: fast}}}}]
profiles: [{{name: p, addedAffinity: {{poolAffinity: {{{field}: {rules}}}}}}}]
"""
    warnings = read_config(text, "p.yaml").warnings
    assert len(warnings) == bool(fix)
    assert all(f"no pool has a label '{key}' — {fix}" in line for line in warnings)


RDT = "control: {{rdt: {{partitions: {{p: {{{}}}}}}}}}"


@pytest.mark.parametrize(
    "text",
    [
        "l3Allocation: 80%",
        "l2Allocation: '0xff0'",
        "l3Allocation: {all: 80%, '2': {unified: 50%}}",
        "mbAllocation: [80%, 1000MBps]",
        "mbAllocation: {all: [80%]}",
        "classes: {gold: {l3Allocation: 60%, mbAllocation: [50%]}}",
    ],
)
def test_shares_of_caches_are_by_cache_or_one_for_all(text: str) -> None:
    checked = read_config(RDT.format(text), "p.yaml")
    assert read_config(format_config(checked.config)).config == checked.config
    assert [line.split(": ")[1] for line in checked.warnings] == ["control.rdt.partitions"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "l3Allocation: 80",
            "80 is not accepted — write a mapping or text (in quotes if it looks like a number)",
        ),
        ("mbAllocation: 80%", "'80%' is not accepted — write a mapping or a list"),
    ],
)
def test_shares_of_caches_of_another_kind_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        read_config(RDT.format(text), "p.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "policy: fifo, priority: 5",
        "policy: rr, priority: 5",
        "policy: deadline, runtime: 2000, deadline: 2000",
    ],
)
def test_a_nice_value_that_no_kernel_heeds_is_accepted_with_a_word(text: str) -> None:
    """The Go policy passes it on, and runtimes and the kernel pass over it."""
    checked = read_config(f"schedulingClasses: [{{name: a, {text}, nice: -5}}]", "p.yaml")
    (chosen,) = checked.config.scheduling_classes
    assert (chosen.nice, chosen.effective_nice) == (-5, None)
    assert [line.split(": ", 1)[1] for line in checked.warnings] == [
        "schedulingClasses[0].nice: accepted, but has no effect — policy"
        f" {chosen.policy.value} has no nice value; leave it out"
    ]


def test_fields_that_depend_on_the_machine_are_not_judged_without_one() -> None:
    text = CLASSES.replace("{name: a}", "{name: a, pctPriority: high, pctMaxFreq: 3GHz}")
    checked = read_config(text.replace("{name: b}", "{name: b, pctPriority: low}"), "p.yaml")
    assert checked.warnings == ()


def test_every_configuration_of_the_given_scenarios_is_read() -> None:
    if not GIVEN.exists():
        pytest.skip(f"{GIVEN} is not here")
    import yaml

    scenarios = yaml.load(GIVEN.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    seen = 0
    for scenario in scenarios["scenarios"]:
        for step in [*scenario.get("steps", []), scenario]:
            if not isinstance(step.get("config"), dict):
                continue
            seen += 1
            pattern = step.get("expect_start_error", step.get("expect_update_error", ""))
            if "failed to parse" in pattern:
                with pytest.raises(ConfigError, match=pattern):
                    config_from_values(step["config"])
            else:
                config_from_values(step["config"])
    assert seen > 10


LEAVES_ALONE = "no level is enabled, so it has no rules — write one, as in numa: {enabled: true}"
NO_EFFECT = "accepted, but has no effect — write enabled: true beside it"
NO_RULES = "adds no rules — write addedAffinity: {podAntiAffinity: ..}, or leave it out"
OPPOSED = (
    "keeps its pods apart at numa, where racks.a.numa wants them together"
    " — write enableNumaAntiAffinity: false"
)
REPLICAS_KEPT_APART = (
    "wants its pods in one NUMA node, where antiAffinity.numa keeps those of one resource set apart"
    " — write antiAffinity: {numa: {enabled: false}}, if they are of one"
)
REPLICAS = "antiAffinity: {numa: {enabled: true}}"
NO_REPLICAS = "antiAffinity: {numa: {enabled: false}}"
A_PATTERN = "is a pattern, and no namespace has such a name — write the names"
KEPT_APART = "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [TERM]}".replace(
    "TERM", "{labelSelector: {}, topologyKey: numa}"
)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        pytest.param("racks: {a: {}}", [f"racks.a: {LEAVES_ALONE}"], id="a rack of nothing"),
        pytest.param(
            "racks: {a: {socket: {requireRackAffinity: true}}}",
            [f"racks.a: {LEAVES_ALONE}"],
            id="a rack with a level that is not enabled",
        ),
        pytest.param(
            "racks: {a: {socket: {enabled: true}, l3: {requireRackAffinity: true}}}",
            [f"racks.a.l3: {NO_EFFECT}"],
            id="one level of two that is not enabled",
        ),
        pytest.param("racks: {a: {socket: {enabled: true}}}", [], id="a rack with rules"),
        pytest.param(
            f"racks: {{a: {{socket: {{enabled: true}}, numa: {{enabled: true}}}}}}\n{NO_REPLICAS}",
            [f"racks.a.socket: {OPPOSED}"],
            id="together on a NUMA node, and each on one of its own by the default of sockets",
        ),
        pytest.param(
            "racks: {a: {numa: {enabled: true, enableNumaAntiAffinity: true}}}\n" + NO_REPLICAS,
            [f"racks.a.numa: {OPPOSED}"],
            id="together and apart at one level",
        ),
        pytest.param(
            "racks: {a: {socket: {enabled: true, enableNumaAntiAffinity: false},"
            f" numa: {{enabled: true}}}}}}\n{NO_REPLICAS}",
            [],
            id="together at two levels",
        ),
        pytest.param(
            "racks: {a: {numa: {enabled: true}}, b: {core: {enabled: true}}}",
            [],
            id="together where replicas keep apart by default, of which nothing is said",
        ),
        pytest.param(
            "racks: {a: {numa: {enabled: true}}}\n" + REPLICAS,
            [f"racks.a.numa: {REPLICAS_KEPT_APART}"],
            id="together where replicas keep apart",
        ),
        pytest.param(
            "racks: {a: {core: {enabled: true}}}\n" + REPLICAS,
            [f"racks.a.core: {REPLICAS_KEPT_APART.replace('one NUMA node', 'one core')}"],
            id="together inside of where replicas keep apart",
        ),
        pytest.param(
            "racks: {a: {numa: {enabled: true}, core: {enabled: true}}, b: {numa: {enabled: true}},"
            f" c: {{socket: {{enabled: true}}}}}}\n{REPLICAS}",
            [
                "racks.a.numa: "
                + REPLICAS_KEPT_APART.replace(" — ", " (2 other levels of racks, too) — ", 1)
            ],
            id="several racks together where replicas keep apart, told once",
        ),
        pytest.param(
            "racks: {a: {l3: {enabled: true}}}",
            [],
            id="together in an L3 group, which may be wider than a NUMA node",
        ),
        pytest.param(
            f"racks: {{a: {{cluster: {{enabled: true}}}}}}\n{REPLICAS}",
            [],
            id="together in a cluster: where there is none, in an L3 group in its place",
        ),
        pytest.param(
            "racks: {a: {l3: {enabled: true}}}\n"
            "antiAffinity: {numa: {enabled: false}, die: {enabled: true}}",
            [
                "racks.a.l3: wants its pods in one L3 group, where antiAffinity.die keeps those of"
                " one resource set apart — write antiAffinity: {die: {enabled: false}}, if they"
                " are of one"
            ],
            id="together in an L3 group, inside of a die where replicas keep apart",
        ),
        pytest.param(
            f"{NO_REPLICAS[:-1]}, core: {{enabled: true}}}}\n"
            "racks: {a: {numa: {enabled: true}}}",
            [],
            id="replicas that keep apart further in",
        ),
        pytest.param(
            'namespaceLabels: {"team-*": {tier: gold}, team: {tier: gold}}',
            [f"namespaceLabels['team-*']: {A_PATTERN}, each with its labels"],
            id="labels of a pattern",
        ),
        pytest.param(
            f"""profiles: [{{name: a, namespaces: ["team-*"], addedAffinity: {{{
                KEPT_APART.replace("topologyKey", 'namespaces: [b, "team-?"], topologyKey')
            }}}}}]""",
            [
                "profiles[0].addedAffinity.podAntiAffinity."
                f"requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[1]: {A_PATTERN},"
                " or a namespaceSelector: {} means all"
            ],
            id="a pattern among the namespaces of a rule, and of its profile",
        ),
        pytest.param("profiles: [{name: a}]", [f"profiles[0]: {NO_RULES}"], id="an empty profile"),
        pytest.param(
            "profiles: [{name: a, addedAffinity: {podAffinity: {}, poolAffinity: {}}}]",
            [f"profiles[0]: {NO_RULES}"],
            id="a profile of empty lists of rules",
        ),
        pytest.param(
            f"profiles: [{{name: a, addedAffinity: {{{KEPT_APART}}}}}]",
            [],
            id="a profile with rules",
        ),
    ],
)
def test_rules_that_come_to_nothing_are_warned_of(text: str, warnings: list[str]) -> None:
    found = read_config(text, "p.yaml").warnings
    assert [one.partition(" ")[2] for one in found] == warnings


def test_truth_values_are_told_as_they_are_written() -> None:
    assert "antiAffinity.numa: true is not accepted" in error_of("antiAffinity: {numa: true}")

"""A manifest of the Go policy with every field in use is read, checked and put in force."""

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import format_config, read_config
from pinfold.policy.engine.engine import Engine
from pinfold.topology.made.spec import machine_from_spec

MANIFEST = """\
apiVersion: config.nri/v1alpha1
kind: TopologyAwarePolicy
metadata: {name: default, namespace: kube-system}
spec:
  pinCPU: true
  pinMemory: true
  preferIsolatedCPUs: true
  preferSharedCPUs: false
  colocatePods: true
  colocateNamespaces: true
  reservedPoolNamespaces: ["infra-*"]
  availableResources: {cpu: "exclude-cpuset:7", memory: 4Gi}
  reservedResources: {cpu: 750m, memory: 1Gi}
  defaultCPUPriority: none
  unlimitedBurstable: numa
  schedulingClasses:
  - {name: quick, policy: fifo, priority: 10, flags: [reset-on-fork], ioClass: be, ioPriority: 4}
  - {name: timed, policy: deadline, runtime: 1000000, deadline: 2000000, period: 3000000}
  namespaceSchedulingClasses: {default: quick}
  podQoSSchedulingClasses: {guaranteed: quick, BestEffort: timed}
  cpuClasses:
  - {name: calm, minFreq: min, maxFreq: base, freqGovernor: powersave, disabledCstates: [C6]}
  - {name: fast, minFreq: 2900MHz, maxFreq: turbo, uncoreMinFreq: min, uncoreMaxFreq: 3.2GHz,
     energyPerformancePreference: performance, turboPriority: 5, pctPriority: high,
     pctMinFreq: base, pctMaxFreq: turbo, publishExtendedResource: true}
  sharedPoolCPUClass: calm
  reservedPoolCPUClass: calm
  defaultExclusiveCPUClass: fast
  controllableInterrupts: ["*"]
  agent: {nodeResourceTopology: false, podResourceAPI: true}
  dra: {enabled: true, sharedCounters: true}
  control:
    rdt:
      enable: true
      usePodQoSAsDefaultClass: true
      force: false
      options: {l2: {optional: true}, l3: {optional: true}, mb: {optional: true}}
      partitions:
        whole:
          l2Allocation: {all: "100%"}
          l3Allocation: {all: "100%"}
          mbAllocation: {all: ["100%"]}
          classes: {half: {l3Allocation: {all: "50%"}}}
    blockio: {enable: true, usePodQoSAsDefaultClass: true}
    cpu: {classes: {plain: {minFreq: 1}}}
  log: {debug: [policy], source: true, klog: {skip_headers: true, v: 3}}
  instrumentation:
    httpEndpoint: ":8891"
    metricsExporter: prometheus
    metrics: {enabled: [policy], polled: ["*"]}
    reportPeriod: 30s
    samplingRatePerMillion: 1
    tracingCollector: otlp-http
    logExporter: otlp-http
    logExportPeriod: 5s
"""


def test_every_field_of_the_go_policy_is_accepted() -> None:
    checked = read_config(MANIFEST, "policy.yaml")
    rdt = checked.config.control.rdt
    assert rdt.partitions["whole"].classes == {"half": {"l3Allocation": {"all": "50%"}}}
    assert checked.config.log.klog == {"skip_headers": True, "v": 3}
    Engine(machine_from_spec("socket:2 core:4 mem:4G"), checked.config)


def test_what_has_no_effect_is_said_field_by_field() -> None:
    warnings = "\n".join(read_config(MANIFEST, "policy.yaml").warnings)
    for field in (
        "control.rdt.partitions",
        "log",
        "instrumentation",
        "agent.nodeResourceTopology",
        "dra",
    ):
        assert f": {field}" in warnings, field


def test_the_effective_configuration_reads_back_the_same() -> None:
    config = read_config(MANIFEST, "policy.yaml").config
    assert read_config(format_config(config), "effective.yaml").config == config
    assert read_config(format_config(Config()), "effective.yaml").config == Config()


@pytest.mark.parametrize(
    "text",
    [
        "control: {rdt: {partitions: {p: {l3Allocation: [1]}}}}",
        "log: {klog: yes}",
        "control: {cpu: {classes: 5}}",
    ],
)
def test_free_mappings_are_mappings_all_the_same(text: str) -> None:
    with pytest.raises(Exception, match="a mapping"):
        read_config(text, "p.yaml")

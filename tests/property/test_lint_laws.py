"""Lint and creation agree: both ask the same classifier and the same engine."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Agent, Config, CpuClass, OnBadAnnotation
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.manifests.manifest import parse_manifests
from pinfold.policy.model.grant import Refusal
from pinfold.policy.placing.classifier import grave_problems
from pinfold.policy.scenarios.check.pod_check import PodCheck
from pinfold.policy.scenarios.creation import created_container, created_pod
from pinfold.policy.scenarios.scenario_file import Topology
from pinfold.policy.scenarios.simulation import pods_scenario, run_scenario
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.unit.policy.manifests.finding_texts import finding_text

MACHINES = [
    machine_from_spec(spec)
    for spec in ("core:2 mem:1G", "socket:2 numa:2 core:2 mem:2G", "core:4 mem:1G isolated:2-3")
]
CLASSES = (CpuClass(name="fast"), CpuClass(name="slow"))
CONFIGS = [
    Config(),
    Config(cpu_classes=CLASSES, shared_pool_cpu_class="slow"),
    Config(on_bad_annotation=OnBadAnnotation.FAIL),
    Config(prefer_shared_cpus=True, agent=Agent(pod_resource_api=True)),
]

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = {
    "irq-affinity": ["claim: [eth0]", "claim: eth0", "mode: x"],
    "cpu-class": ["fast", "fasd"],
    "scheduling-class": ["rt"],
    "rdtclass": ["gold"],
    "require-isolated-cpus": ["true", "yes"],
    "prefer-isolated-cpus": ["true"],
    "prefer-shared-cpus": ["true", "false"],
    "prefer-reserved-cpus": ["true"],
    "cpu.preserve": ["true"],
    "memory-type": ["dram", "hbm", "tape"],
    "unlimited-burstable": ["numa", "socket"],
    "pick-resources-by-hints": ["true"],
    "topologyhints": ["pod-resources", "walls"],
    "smt": ["pack"],
}
SCOPES = st.one_of(st.just("pod"), NAMES.map("container.{}".format))
PLAIN = st.sampled_from(
    [
        ("resource-policy.nri.io/affinity", "a: [b]"),
        ("resource-policy.nri.io/affinity", "a: [{match: {key: name, operator: Equal}}]"),
        ("resource-policy.nri.io/affinity", "a: ["),
        ("noderesource.dev/resources", "{"),
        ("resource-policy.nri.io/afinity", "a: [b]"),
    ]
)
SETTINGS = st.sampled_from(
    [(key, one) for key, values in VALUES.items() for one in values]
).flatmap(
    lambda pair: SCOPES.map(lambda scope: (f"{pair[0]}.resource-policy.nri.io/{scope}", pair[1]))
)
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["100m", "1", "1500m", "2", "5"]),
        "memory": st.sampled_from(["1Mi", "900Mi"]),
    },
)


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """A pod as JSON, which is YAML too."""

    def containers(names: list[str]) -> list[dict[str, object]]:
        return [{"name": one, "resources": {draw(KINDS): draw(AMOUNTS)}} for one in names]

    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    inits = draw(st.integers(0, len(names) - 1))
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "annotations": dict(draw(st.lists(st.one_of(SETTINGS, PLAIN), max_size=3))),
        },
        "spec": {
            "initContainers": containers(names[:inits]),
            "containers": containers(names[inits:]),
        },
    }
    return json.dumps(manifest, indent=1)


KINDS = st.sampled_from(["limits", "requests"])


@given(manifests(), st.sampled_from(CONFIGS), st.sampled_from(MACHINES))
@settings(deadline=None, max_examples=150)
def test_what_lint_passes_is_created_and_what_is_refused_lint_finds(
    text: str, config: Config, machine: Machine
) -> None:
    found = lint_manifests(text, PodCheck(config, machine))
    errors = [finding_text(one, "p") for one in found if not one.problem.is_advice]
    scenario = pods_scenario(parse_manifests(text, "p"))
    result = run_scenario(scenario, Topology(machine=machine), config)
    assert bool(errors) >= bool(result.refusals), (text, result.refusals)
    for refusal in result.refusals:
        parts = refusal.reason.partition(" — ")[0].rpartition(": ")[2]
        assert any(parts in one for one in errors), (refusal, errors)
    if any(" refused: " in one for one in errors):
        assert result.refusals


@given(manifests(), st.sampled_from(CONFIGS), st.sampled_from(MACHINES))
@settings(deadline=None, max_examples=150)
def test_without_a_machine_only_room_can_refuse_what_lint_passes(
    text: str, config: Config, machine: Machine
) -> None:
    found = lint_manifests(text, PodCheck(config, None))
    if not all(one.problem.is_advice for one in found):
        return
    (spec,) = parse_manifests(text, "p")
    engine, pod = Engine(machine, config), created_pod(spec, 0)
    for serial, one in enumerate((*spec.init_containers, *spec.containers), start=1):
        container, problems = created_container(one, pod, serial)
        decision = engine.create(container)
        assert not grave_problems((*problems, *decision.problems), container, config)
        if isinstance(decision.result, Refusal):
            # Reserved containers are held against the root alone, for its memory.
            reason = decision.result.reason
            is_full = reason.startswith(f"{engine.tree.root.name}: memory: wanted ")
            assert decision.lineup is not None or is_full, reason


@given(manifests(), st.sampled_from(MACHINES))
@settings(deadline=None, max_examples=100)
def test_without_a_configuration_what_lint_passes_is_created_under_the_default_one(
    text: str, machine: Machine
) -> None:
    check = PodCheck(None, machine)
    found = lint_manifests(text, check)
    (spec,) = parse_manifests(text, "p")
    scenario = run_scenario(pods_scenario((spec,)), Topology(machine=machine), Config())
    errors = [one for one in found if not one.problem.is_advice]
    assert errors or not scenario.refusals

"""From resources, annotations and configuration to a request."""

from typing import Any

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Config, OnBadAnnotation
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.cpu_preference import BurstLevel, CpuPriority, SmtPreference
from pinfold.policy.model.request import CpuType, Isolation, Request
from pinfold.policy.placing.classifier import Classified, Classifier
from pinfold.policy.rules import affinity
from pinfold.policy.text.errors import Problem
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import MemoryKind
from tests.unit.policy.text.test_text_cache import entries

DOMAIN = "resource-policy.nri.io"
G, BURSTABLE, BEST_EFFORT = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT
NO, PREFERRED, REQUIRED = Isolation.NO, Isolation.PREFERRED, Isolation.REQUIRED
SHARED, UNSHARED = {"prefer-shared-cpus": "true"}, {"prefer-shared-cpus": "false"}
ISOLATED, NOT_ISOLATED = {"prefer-isolated-cpus": "true"}, {"prefer-isolated-cpus": "false"}
MUST = {"require-isolated-cpus": "true"}
ALL_SHARED = Config(prefer_shared_cpus=True)
NOT_ISOLATING = Config(prefer_isolated_cpus=False)


def classified(
    milli: int = 0,
    annotations: dict[str, str] | None = None,
    config: Config | None = None,
    *,
    qos: QosClass = G,
    namespace: str = "default",
    **resources: Any,
) -> Classified:
    pod = Pod(
        id=PodId("p"),
        name="p",
        namespace=namespace,
        annotations={
            key if "/" in key else f"{key}.{DOMAIN}/pod": text
            for key, text in (annotations or {}).items()
        },
        qos=qos,
    )
    if qos is G:
        resources.setdefault("cpu_limit_milli", milli)
    container = Container(
        id=ContainerId("c"),
        name="c0",
        pod=pod,
        resources=Resources(cpu_request_milli=milli, **resources),
    )
    return Classifier(config or Config()).classify(container)


def request(*args: Any, **named: Any) -> Request:
    return classified(*args, **named).request


GUARANTEED = [
    pytest.param(0, {}, None, (0, 0, NO), id="nothing at all"),
    pytest.param(999, {}, None, (0, 999, NO), id="less than a cpu is a share"),
    pytest.param(999, UNSHARED, None, (0, 999, NO), id="whatever it says"),
    pytest.param(1000, {}, None, (1, 0, PREFERRED), id="one cpu, isolated by the configuration"),
    pytest.param(1000, {}, NOT_ISOLATING, (1, 0, NO), id="one cpu, not isolated by it"),
    pytest.param(1000, NOT_ISOLATED, None, (1, 0, NO), id="one cpu that opts out of isolation"),
    pytest.param(1000, MUST, NOT_ISOLATING, (1, 0, REQUIRED), id="one that has to be isolated"),
    pytest.param(1000, SHARED, None, (0, 1000, NO), id="one cpu that prefers shared ones"),
    pytest.param(1000, {}, ALL_SHARED, (0, 1000, NO), id="one cpu where all prefer shared ones"),
    pytest.param(1000, UNSHARED, ALL_SHARED, (1, 0, PREFERRED), id="and opts out of that"),
    pytest.param(1500, {}, None, (1, 500, PREFERRED), id="one and a rest is mixed"),
    pytest.param(1500, SHARED, None, (0, 1500, NO), id="one and a rest, shared"),
    pytest.param(2000, {}, None, (2, 0, NO), id="several are isolated only for who says so"),
    pytest.param(2000, ISOLATED, None, (2, 0, PREFERRED), id="and here says so"),
    pytest.param(2000, MUST, None, (2, 0, REQUIRED), id="or insists"),
    pytest.param(2000, {}, ALL_SHARED, (0, 2000, NO), id="several where all prefer shared ones"),
    pytest.param(2500, {}, None, (0, 2500, NO), id="several and a rest are shared"),
    pytest.param(2500, UNSHARED, None, (2, 500, PREFERRED), id="unless it asks for a mixed set"),
    pytest.param(2500, UNSHARED, NOT_ISOLATING, (2, 500, NO), id="a mixed set, not isolated"),
    pytest.param(2500, ISOLATED, None, (0, 2500, NO), id="asking for isolation does not mix"),
]


@pytest.mark.parametrize(("milli", "annotations", "config", "expected"), GUARANTEED)
def test_a_guaranteed_container_asks_for(
    milli: int,
    annotations: dict[str, str],
    config: Config | None,
    expected: tuple[int, int, Isolation],
) -> None:
    found = request(milli, annotations, config)
    assert (found.exclusive, found.shared_milli, found.isolation) == expected
    assert found.cpu_type is CpuType.NORMAL
    assert not found.is_unlimited
    assert found.cpu_limit_milli is None
    assert found.total_milli == milli


NAMESPACES = Config(reserved_pool_namespaces=("sys-*",))
TYPES = [
    pytest.param("default", {}, CpuType.NORMAL, id="an ordinary container"),
    pytest.param("kube-system", {}, CpuType.RESERVED, id="a system container"),
    pytest.param("sys-1", {}, CpuType.RESERVED, id="a namespace the configuration names"),
    pytest.param("mysys-1", {}, CpuType.NORMAL, id="a namespace like it"),
    pytest.param("default", {"prefer-reserved-cpus": "true"}, CpuType.RESERVED, id="it asks"),
    pytest.param("kube-system", {"prefer-reserved-cpus": "false"}, CpuType.NORMAL, id="it refuses"),
    pytest.param("kube-system", {"prefer-reserved-cpus": "x"}, CpuType.RESERVED, id="it says odd"),
    pytest.param("kube-system", {"cpu.preserve": "true"}, CpuType.PRESERVE, id="it keeps its own"),
    pytest.param("default", {"cpu.preserve": "yes"}, CpuType.NORMAL, id="only true preserves"),
    pytest.param(
        "default",
        {"cpu.preserve": "true", "prefer-reserved-cpus": "true"},
        CpuType.PRESERVE,
        id="keeping comes before the reserved cpus",
    ),
]


@pytest.mark.parametrize(("namespace", "annotations", "cpu_type"), TYPES)
def test_cpus_come_from_the_kind_that_the_pod_asks_for(
    namespace: str, annotations: dict[str, str], cpu_type: CpuType
) -> None:
    found = request(2000, annotations, NAMESPACES, namespace=namespace)
    assert found.cpu_type is cpu_type
    whole = 2 if cpu_type is CpuType.NORMAL else 0
    assert (found.exclusive, found.shared_milli) == (whole, 2000 - 1000 * whole)


def test_burstable_containers_share_up_to_their_limit() -> None:
    found = request(2000, qos=BURSTABLE, cpu_limit_milli=3000)
    assert (found.exclusive, found.shared_milli) == (0, 2000)
    assert (found.cpu_limit_milli, found.is_unlimited) == (3000, False)


def test_burstable_containers_without_a_limit_are_unlimited() -> None:
    found = request(2000, qos=BURSTABLE)
    assert (found.cpu_limit_milli, found.is_unlimited) == (None, True)
    assert found.burst_level is BurstLevel.PACKAGE
    config = Config(unlimited_burstable=BurstLevel.NUMA)
    assert request(0, {}, config, qos=BURSTABLE).burst_level is BurstLevel.NUMA
    die = request(0, {"unlimited-burstable": "die"}, config, qos=BURSTABLE)
    assert die.burst_level is BurstLevel.DIE


def test_best_effort_containers_ask_for_nothing_and_are_not_unlimited() -> None:
    found = request(0, qos=BEST_EFFORT)
    assert (found.total_milli, found.is_unlimited, found.cpu_limit_milli) == (0, False, None)


MEMORY = [
    pytest.param(5, 9, 5, id="the request"),
    pytest.param(0, 9, 9, id="the limit where there is no request"),
    pytest.param(5, None, 5, id="a request without a limit"),
    pytest.param(0, None, 0, id="nothing"),
]


@pytest.mark.parametrize(("asked", "limit", "accounted"), MEMORY)
def test_memory_is_accounted(asked: int, limit: int | None, accounted: int) -> None:
    found = request(qos=BURSTABLE, memory_request_bytes=asked, memory_limit_bytes=limit)
    assert (found.memory_bytes, found.memory_limit_bytes) == (accounted, limit)


def test_scarce_memory_is_only_for_who_asks() -> None:
    assert request().memory_kinds == {MemoryKind.DRAM, MemoryKind.PMEM}
    assert request(0, {"memory-type": "HBM,dram"}).memory_kinds == {
        MemoryKind.HBM,
        MemoryKind.DRAM,
    }
    assert request(0, {"memory-type": "mixed"}).memory_kinds == set(MemoryKind)
    assert request(0, {"memory.preserve": "true"}).preserve_memory


def test_who_asks_for_no_kind_of_memory_that_is_there_is_told() -> None:
    machine = machine_from_spec("socket:2 core:4 mem:4G")

    def told(*annotations: tuple[str, str], config: Config | None = None) -> Classified:
        texts = {f"{key}.{DOMAIN}/pod": text for key, text in annotations}
        pod = Pod(id=PodId("p"), name="p", annotations=texts)
        container = Container(id=ContainerId("c"), name="c0", pod=pod)
        return Classifier(config or Config(), machine=machine).classify(container)

    strict = Config(on_bad_annotation=OnBadAnnotation.FAIL)
    found = told(("memory-type", "hbm,cxl"), config=strict)
    (problem,) = found.problems
    assert str(problem) == (
        f"memory-type.{DOMAIN}/pod of default/p/c0: no memory of this node is cxl, hbm: it gets"
        " what it would get without this — name a kind that is there as well, or leave it out"
    )
    assert problem.is_advice
    assert found.request.memory_kinds == told().request.memory_kinds
    assert not told(("memory-type", "hbm,dram")).problems
    assert not told(("memory-type", "hbm"), ("memory.preserve", "true")).problems


PRIORITIES = [
    pytest.param(G, {}, CpuPriority.LOW, id="that of the configuration"),
    pytest.param(G, {"prefer-cpu-priority": "high"}, CpuPriority.HIGH, id="its own"),
    pytest.param(G, {"prefer-cpu-priority": "none"}, CpuPriority.NONE, id="none"),
    pytest.param(G, {"prefer-cpu-priority": "default"}, CpuPriority.LOW, id="the default by name"),
    pytest.param(BURSTABLE, {"prefer-cpu-priority": "high"}, CpuPriority.NONE, id="not to burst"),
    pytest.param(BEST_EFFORT, {}, CpuPriority.NONE, id="not for best effort"),
]


@pytest.mark.parametrize(("qos", "annotations", "priority"), PRIORITIES)
def test_the_cpu_priority_is_for_exclusive_cpus_alone(
    qos: QosClass, annotations: dict[str, str], priority: CpuPriority
) -> None:
    config = Config(default_cpu_priority=CpuPriority.LOW)
    assert request(1000, annotations, config, qos=qos).priority is priority


def test_wishes_for_threads_of_cores_are_told_apart() -> None:
    assert not request(1000).hide_hyperthreads
    assert request(1000).smt is SmtPreference.ANY
    assert request(1000, {"hide-hyperthreads": "true"}).hide_hyperthreads
    hiding = request(1000, {"smt.pinfold.dev/pod": "hide"})
    assert hiding.hide_hyperthreads
    packing = request(1000, {"smt.pinfold.dev/pod": "pack"})
    assert packing.smt is SmtPreference.PACK
    assert not packing.hide_hyperthreads


def test_every_problem_is_told_and_nothing_fails() -> None:
    found = classified(
        1000,
        {
            "prefer-isolated-cpus": "perhaps",
            f"{DOMAIN}/affinity": "c0: {",
            "cpu-clas": "typo",
        },
    )
    text = " ".join(map(str, found.problems))
    assert len(found.problems) == 3
    for word in ("perhaps", "affinity", "cpu-clas"):
        assert word in text
    assert found.request.exclusive == 1
    assert found.rules == ()


def test_colocation_is_for_containers_without_rules_of_their_own() -> None:
    both = Config(colocate_pods=True, colocate_namespaces=True)
    assert [rule.source for rule in classified(0, {}, both).rules] == [
        "colocatePods",
        "colocateNamespaces",
    ]
    own = classified(0, {f"{DOMAIN}/affinity": "c0: [c1]"}, both).rules
    assert len(own) == 1
    assert own[0].source not in ("colocatePods", "colocateNamespaces")
    assert classified().rules == ()


DESCRIPTIONS = [
    pytest.param(request(1000, NOT_ISOLATED), "1 exclusive CPU", id="one"),
    pytest.param(request(2000), "2 exclusive CPUs", id="two"),
    pytest.param(request(1000, MUST), "1 isolated CPU", id="isolated"),
    pytest.param(request(1500), "1 exclusive CPU, 500m of shared CPU", id="mixed"),
    pytest.param(
        structs.replace(request(4000), whole_cores=True),
        "4 exclusive CPUs in whole cores",
        id="whole cores",
    ),
    pytest.param(request(), "0m of shared CPU", id="nothing"),
    pytest.param(
        request(100, memory_limit_bytes=7), "100m of shared CPU, 7 bytes of memory", id="memory"
    ),
]


@pytest.mark.parametrize(("asked", "text"), DESCRIPTIONS)
def test_a_request_is_described_as(asked: Request, text: str) -> None:
    assert asked.describe() == text


NEEDS = [
    pytest.param(request(1000), False, id="cpus of its own"),
    pytest.param(request(1500), True, id="a mixed set"),
    pytest.param(request(500), True, id="a share"),
    pytest.param(request(0), True, id="nothing"),
]


@pytest.mark.parametrize(("asked", "needs"), NEEDS)
def test_shared_cpus_are_used_by(asked: Request, needs: bool) -> None:
    assert asked.needs_shared_cpu is needs


TAKES_ISOLATED = [
    pytest.param(request(2000), Isolation.PREFERRED, 0b110, True, id="wished, and enough are left"),
    pytest.param(request(2000), Isolation.PREFERRED, 0b100, False, id="wished, and too few are"),
    pytest.param(request(2000), Isolation.REQUIRED, 0, True, id="it must have them"),
    pytest.param(request(2000), Isolation.NO, 0b111, False, id="not wished"),
    pytest.param(request(500), Isolation.REQUIRED, 0b111, False, id="it has none of its own"),
]


@pytest.mark.parametrize(("asked", "isolation", "free", "may"), TAKES_ISOLATED)
def test_isolated_cpus_may_serve(
    asked: Request, isolation: Isolation, free: int, may: bool
) -> None:
    assert structs.replace(asked, isolation=isolation).may_take_isolated(free) is may


def test_a_request_as_shares_asks_for_as_much() -> None:
    mixed = request(2500, UNSHARED)
    assert mixed.as_shared().shared_milli == mixed.total_milli == 2500
    assert mixed.as_shared().exclusive == 0
    assert not mixed.as_shared().wants_isolated


FRIENDS = {f"{DOMAIN}/affinity": "c0: [c1]", f"{DOMAIN}/anti-affinity": "c0: [c2]"}
RACK = {"pinfold.dev/rack": "blue"}
APART = "topologyKey: l3, labelSelector: {matchLabels: {app: web}}"
WITHOUT_REVISION = read_config("""\
profiles:
- name: those without a revision
  labelSelector: {matchExpressions: [{key: rev, operator: DoesNotExist}]}
  addedAffinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
    [{topologyKey: numa, labelSelector: {}}]}}
""").config


def apart(more: str = "") -> dict[str, str]:
    rule = f"requiredDuringSchedulingIgnoredDuringExecution: [{{{APART}{more}}}]"
    return {"affinity.pinfold.dev/pod": f"podAntiAffinity: {{{rule}}}"}


ALIKE = [
    pytest.param({}, G, {}, id="one without annotations"),
    pytest.param({}, BEST_EFFORT, {}, id="one that asks for nothing"),
    pytest.param({f"prefer-shared-cpus.{DOMAIN}/pod": "true"}, G, {}, id="one with a preference"),
    pytest.param(FRIENDS, G, {}, id="one with friends in its pod"),
    pytest.param({f"{DOMAIN}/affinity": "c0: ["}, G, {}, id="one with a fault in its rules"),
    pytest.param({f"cpu-class.{DOMAIN}/pod": "turbo"}, G, {}, id="one with a wish nobody can meet"),
    pytest.param({}, G, RACK, id="one whose labels count"),
    pytest.param(apart(), G, {}, id="one that must be apart from others"),
    pytest.param(
        apart(", matchLabelKeys: [rev]"), G, {}, id="one apart from others of its revision"
    ),
]


@pytest.mark.parametrize(("annotations", "qos", "labels"), ALIKE)
@pytest.mark.parametrize("config", [Config(), Config(colocate_pods=True), WITHOUT_REVISION])
def test_replicas_are_classified_as_each_would_be_alone(
    annotations: dict[str, str], qos: QosClass, labels: dict[str, str], config: Config
) -> None:
    def replica(number: int, *problems: Problem) -> Container:
        pod = Pod(
            id=PodId(f"p{number}"),
            name=f"web-{number}",
            labels={"rev": f"{number}", **labels},
            annotations=annotations,
            annotation_problems=problems,
            qos=qos,
        )
        resources = Resources(cpu_request_milli=1500, cpu_limit_milli=1500)
        return Container(id=ContainerId(f"c{number}"), name="c0", pod=pod, resources=resources)

    classifier, odd = Classifier(config), Problem(where="the pod", what="is odd")
    for number in range(3):
        found = classifier.classify(replica(number))
        # One that is odd is like nobody else, and looked at for itself.
        alone = Classifier(config).classify(replica(number, odd))
        assert alone.problems[0] == odd
        assert structs.replace(alone, problems=alone.problems[1:]) == found


def test_what_is_read_when_a_pod_begins_is_not_read_again_for_its_containers() -> None:
    text = "c0: [a-friend-that-nobody-else-has]"
    annotations = {f"{DOMAIN}/affinity": text, f"prefer-shared-cpus.{DOMAIN}/pod": "true"}
    pod = Pod(id=PodId("p"), name="web", annotations=annotations, qos=G)
    classifier, read = Classifier(Config()), vars(affinity)["_parse_texts"]
    classifier.expect(pod)
    before = entries(read)
    found = classifier.classify(Container(id=ContainerId("c"), name="c0", pod=pod))
    assert [rule.weight for rule in found.rules] == [1]
    assert entries(read) == before

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.commands.demo_pods import DEMO_PODS
from pinfold.cmd.pinfold import main
from pinfold.policy.configuration.annotation_rule_fields import AnnotationRule
from pinfold.policy.configuration.config import Agent, Config, CpuClass, PoolLabels
from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.scenarios.check.pod_check import PodCheck
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.policy.manifests.finding_texts import finding_text

MACHINE = "socket:2 core:4 mem:4G"

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: shop
  labels: {app: shop}
  annotations:
    a.b/c: d
    ANNOTATION
spec:
  containers:
  - name: web
    resources: {limits: WEB}
  - name: db
    resources: {limits: {cpu: 500m, memory: 1Mi}}
"""
WHOLE = "{cpu: 2, memory: 1Mi}"


def lint(
    annotation: str,
    web: str = WHOLE,
    *,
    config: Config | None = None,
    machine: str = "",
) -> list[str]:
    text = POD.replace("ANNOTATION", annotation).replace("WEB", web)
    check = PodCheck(config, machine_from_spec(machine) if machine else None)
    return [
        finding_text(one, "shop.yaml").partition("\n")[0] for one in lint_manifests(text, check)
    ]


IRQ = "irq-affinity.resource-policy.nri.io/{}: 'claim: [\"*eth0*\"]'"
CLASS = "cpu-class.resource-policy.nri.io/{}: fast"
BURSTABLE = "{cpu: 2}"
FAST = Config(cpu_classes=(CpuClass(name="fast"),), shared_pool_cpu_class="fast")


@pytest.mark.parametrize(
    ("annotation", "web", "what"),
    [
        pytest.param(
            IRQ.format("container.web"),
            BURSTABLE,
            "QoS class Burstable is not Guaranteed — set limits equal to requests",
            id="interrupts for a pod that is not Guaranteed",
        ),
        pytest.param(
            IRQ.format("container.web"),
            "{cpu: 500m, memory: 1Mi}",
            "IRQ affinity is invalid without exclusive CPUs — ask for whole cpus",
            id="interrupts for who has no cpu of its own",
        ),
        pytest.param(
            CLASS.format("container.web"),
            BURSTABLE,
            "CPU class 'fast' invalid for non-Guaranteed QoS class Burstable",
            id="a class for a pod that is not Guaranteed",
        ),
        pytest.param(
            CLASS.format("container.db"),
            WHOLE,
            "CPU class 'fast' invalid without exclusive CPUs",
            id="a class for who has no cpu of its own",
        ),
        pytest.param(
            "noderesource.dev/resources: '{'", WHOLE, "not JSON", id="resources that are no JSON"
        ),
    ],
)
def test_what_creation_refuses_or_reports_is_found(annotation: str, web: str, what: str) -> None:
    found = lint(annotation, web)
    assert found
    assert all(one.startswith("shop.yaml:8:5: ") and what in one for one in found)


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(IRQ.format("container.web"), id="interrupts for who has cpus of its own"),
        pytest.param(IRQ.format("pod"), id="wide interrupts pass over who cannot have them"),
        pytest.param(CLASS.format("container.web"), id="a class of whatever node"),
        pytest.param("rdtclass.resource-policy.nri.io/pod: gold", id="a class of caches"),
        pytest.param("scheduling-class.resource-policy.nri.io/pod: rt", id="a scheduling class"),
    ],
)
def test_what_creation_accepts_on_some_node_is_accepted(annotation: str) -> None:
    assert lint(annotation) == []


@pytest.mark.parametrize(
    ("annotation", "what"),
    [
        (CLASS.format("container.web"), "this node has no cpu classes"),
        ("scheduling-class.resource-policy.nri.io/pod: rt", "no scheduling class 'rt'"),
        ("rdtclass.resource-policy.nri.io/pod: gold", "configuration has them off"),
    ],
)
def test_the_configuration_counts(annotation: str, what: str) -> None:
    (found,) = lint(annotation, config=Config())
    assert found.startswith("shop.yaml:8:5: "), "at the annotation, whatever the problem names"
    assert what in found


def test_a_class_of_the_configuration_is_known() -> None:
    assert lint(CLASS.format("container.web"), config=FAST) == []
    (found,) = lint(CLASS.format("container.web").replace("fast", "fasd"), config=FAST)
    assert "unknown CPU class 'fasd' — did you mean 'fast'?" in found


COLD = "cold-start.resource-policy.nri.io/container.web: 'duration: 10s'"


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        pytest.param("a.b/e: f", [], id="a place of its own"),
        pytest.param(
            'pod-pool.pinfold.dev/pod: "true"',
            [
                "shop.yaml:7:5: advice: cold-start.resource-policy.nri.io/container.web of"
                " default/shop/web: no cold start: its memory nodes are those of its pod, and have"
                " DRAM — write 'pod-pool.pinfold.dev/container.web: \"false\"', or leave it out"
            ],
            id="the pod's",
        ),
        pytest.param(
            "group.pinfold.dev/pod: herd",
            [
                "shop.yaml:7:5: advice: cold-start.resource-policy.nri.io/container.web of"
                " default/shop/web: no cold start: its memory nodes are those of its group, and"
                " have DRAM — leave it out of the group"
            ],
            id="a group's",
        ),
    ],
)
def test_a_cold_start_where_memory_is_that_of_others_too_is_told(
    wish: str, found: list[str]
) -> None:
    text = POD.replace("a.b/c: d", COLD)
    text = text.replace("ANNOTATION", wish).replace("WEB", "{cpu: 1500m, memory: 1Mi}")
    check = PodCheck(None, None)
    assert [
        finding_text(one, "shop.yaml").partition("\n")[0] for one in lint_manifests(text, check)
    ] == found


POD_POOL = 'pod-pool.pinfold.dev/pod: "true"'


@pytest.mark.parametrize(
    ("wish", "web", "is_told"),
    [
        pytest.param(POD_POOL, WHOLE, True, id="two whole cpus in a set of 2500m"),
        pytest.param(POD_POOL, "{cpu: 1500m, memory: 1Mi}", False, id="a set of whole ones"),
        pytest.param(POD_POOL, "{cpu: 2}", False, id="a pod whose containers share anyway"),
        pytest.param("group.pinfold.dev/pod: herd", WHOLE, False, id="a group, which only shares"),
        pytest.param("a.b/e: f", WHOLE, False, id="no set"),
    ],
)
def test_whole_cpus_that_are_shared_in_the_set_of_the_pod_are_told(
    wish: str, web: str, *, is_told: bool
) -> None:
    assert lint(wish, web) == is_told * [
        "shop.yaml:8:5: advice: pod-pool.pinfold.dev/pod of default/shop/web: it shares its cpus,"
        " since its pod's set of 2500m is not of whole ones — have the pod ask for 3 cpus, or write"
        " 'pod-pool.pinfold.dev/container.web: \"false\"'"
    ]


OF_THE_POD = """\
  resources: {limits: {cpu: SIZE, memory: 1Gi}, requests: {cpu: SIZE, memory: 1Gi}}
  containers:
  - name: web
    resources: {limits: {cpu: 2, memory: 1Mi}}
  - name: db
"""


@pytest.mark.parametrize(
    ("size", "wish", "is_told"),
    [
        pytest.param("2500m", "a.b/e: f", True, id="a set of 2500m"),
        pytest.param("3", "a.b/e: f", False, id="a set of whole ones"),
        pytest.param(
            "2500m",
            'pod-pool.pinfold.dev/container.web: "false"',
            False,
            id="a container outside the set",
        ),
    ],
)
def test_whole_cpus_that_are_shared_in_a_pod_with_resources_of_its_own_are_told(
    size: str, wish: str, *, is_told: bool
) -> None:
    text = POD.partition("  containers:")[0].replace("ANNOTATION", wish)
    found = list(lint_manifests(text + OF_THE_POD.replace("SIZE", size), PodCheck(None, None)))
    assert [one.problem.what for one in found] == is_told * [
        "it shares its cpus, since its pod's set of 2500m is not of whole ones"
    ]


def test_an_init_container_that_is_done_by_then_is_in_no_set_of_its_pod() -> None:
    text = POD.partition("  containers:")[0].replace("ANNOTATION", "a.b/e: f")
    init = "  - {name: init, resources: {limits: {cpu: 2, memory: 1Mi}}}\n"
    shared = OF_THE_POD.replace("SIZE", "2500m").replace("cpu: 2, ", "cpu: 500m, ")
    found = list(lint_manifests(f"{text}  initContainers:\n{init}{shared}", PodCheck(None, None)))
    assert not found


def test_a_sibling_outside_the_set_makes_none_of_the_pods_numbers() -> None:
    text = POD.partition("  containers:")[0]
    text = text.replace("ANNOTATION", 'pod-pool.pinfold.dev/container.db: "false"')
    found = list(lint_manifests(text + OF_THE_POD.replace("SIZE", "2500m"), PodCheck(None, None)))
    assert not found


def test_a_cold_start_in_a_pod_with_resources_of_its_own_is_told() -> None:
    text = POD.partition("  containers:")[0].replace("ANNOTATION", COLD)
    found = list(lint_manifests(text + OF_THE_POD.replace("SIZE", "3"), PodCheck(None, None)))
    assert ["no cold start" in one.problem.what for one in found] == [True]


OWN = 'exclusive.pinfold.dev/container.web: request\n    pod-pool.pinfold.dev/pod: "true"'


@pytest.mark.parametrize(
    ("wish", "web", "is_told"),
    [
        pytest.param(OWN, WHOLE, True, id="a set of 2500m"),
        pytest.param(OWN, "{cpu: 2}", True, id="a pod whose containers share"),
        pytest.param(OWN, "{cpu: 2500m}", True, id="a set of whole ones that is not Guaranteed"),
        pytest.param(OWN, "{cpu: 2500m, memory: 1Mi}", False, id="a set of whole ones"),
        pytest.param(OWN.partition("\n")[0], WHOLE, False, id="no set"),
        pytest.param(
            OWN.replace('pod-pool.pinfold.dev/pod: "true"', "group.pinfold.dev/pod: herd"),
            WHOLE,
            True,
            id="a group, which only shares",
        ),
        pytest.param(
            OWN.replace('pod-pool.pinfold.dev/pod: "true"', "group.pinfold.dev/pod: herd"),
            "{cpu: 2500m, memory: 1Mi}",
            True,
            id="a group of whole ones",
        ),
    ],
)
def test_a_wish_for_cpus_of_its_own_in_a_set_that_is_shared_is_told(
    wish: str, web: str, *, is_told: bool
) -> None:
    found = [one for one in lint(wish, web) if "no cpus of its own: it shares those of" in one]
    assert len(found) == is_told


DEVICES = "advice: {} of default/shop/web: the kubelet's devices count only where"


@pytest.mark.parametrize(
    ("annotation", "is_advised"),
    [
        ("topologyhints.resource-policy.nri.io/pod: pod-resources", True),
        ('pick-resources-by-hints.resource-policy.nri.io/pod: "true"', True),
        ('pick-resources-by-hints.resource-policy.nri.io/pod: "false"', False),
        ('topologyhints.resource-policy.nri.io/pod: "true"', False),
        ("topologyhints.resource-policy.nri.io/pod: mounts", False),
    ],
)
def test_hints_of_the_kubelet_need_the_configuration(annotation: str, is_advised: bool) -> None:
    key = annotation.partition(":")[0]
    expected = [f"shop.yaml:8:5: {DEVICES.format(key)}"] if is_advised else []
    for config in (None, Config()):
        assert [one[: len(expected[0])] for one in lint(annotation, config=config)] == expected
    assert lint(annotation, config=Config(agent=Agent(pod_resource_api=True))) == []


@pytest.mark.parametrize(
    ("hints", "found"),
    [
        pytest.param("{CPUs: 0-x}", ["8:75: nic: CPUs: '0-x' is not a list of ids"], id="no list"),
        pytest.param("{CPU: 0}", ["8:69: unknown field 'CPU'"], id="an unknown field"),
        pytest.param("{CPUs: 0-3, IRQs: [4]}", [], id="as they should be"),
    ],
)
def test_what_is_wrong_with_hints_for_tests_is_told(hints: str, found: list[str]) -> None:
    key = "test.topologyhints.resource-policy.nri.io/container.web"
    told = [one.partition(" — ")[0] for one in lint(f'{key}: "nic: {hints}"')]
    path = f"{key} of default/shop/web: "
    assert [one.removeprefix("shop.yaml:").replace(path, "") for one in told] == found


NAMED = "[{match: {key: name, operator: Equals, values: [%s]}, weight: %d, symmetric: %s}]"


@pytest.mark.parametrize(
    ("near", "apart", "owner"),
    [
        pytest.param("web: [db]", "web: [db]", "web", id="shorthand of one"),
        pytest.param("web: [db]", "db: [web]", "web", id="shorthand of both"),
        pytest.param("web: ['*']", "db: [web]", "web", id="everybody and one"),
        pytest.param(
            f"web: {NAMED % ('db', 3, 'true')}",
            f"db: {NAMED % ('web', 3, 'true')}",
            "web",
            id="full rules in both directions",
        ),
        pytest.param(
            f"db: {NAMED % ('web', 3, 'false')}",
            f"db: {NAMED % ('web', 3, 'false')}",
            "db",
            id="full rules of one",
        ),
        pytest.param(
            f"web: {NAMED % ('db', 3, 'true')}",
            f"db: {NAMED % ('web', 2, 'true')}",
            None,
            id="one weighs more",
        ),
        pytest.param(
            f"web: {NAMED % ('db', 3, 'false')}",
            f"db: {NAMED % ('web', 3, 'false')}",
            None,
            id="each counts when its owner is placed",
        ),
        pytest.param("web: [db]", "{}", None, id="nothing against it"),
    ],
)
def test_weights_inside_a_pod_that_cancel_each_other_are_advised_against(
    near: str, apart: str, owner: str | None
) -> None:
    key = "resource-policy.nri.io"
    found = lint(f'{key}/affinity: "{near}"\n    {key}/anti-affinity: "{apart}"')
    told = [one for one in found if "cancel" in one]
    if owner is None:
        assert not told
        return
    (line,) = told
    place, _, text = line.partition(": advice: ")
    assert place.startswith("shop.yaml:8:")
    friend = "db" if owner == "web" else "web"
    assert text == (
        f"{key}/affinity of default/shop/{owner}: the weights of '{owner}' and '{friend}' for each"
        " other cancel: none of them counts — leave them out, or give the one that is meant a"
        " greater weight"
    )


RULE = "resource-policy.nri.io/affinity: |\n      web:\n      - match: {}\n        {}"
EVERYWHERE = "scope: {operator: AlwaysTrue}"


@pytest.mark.parametrize(
    ("match", "scope", "is_advised"),
    [
        ("{key: name, operator: Equals, values: [db]}", "symmetric: true", False),
        ("{key: name, operator: Equals, values: [dc]}", "weight: 1", True),
        ("{key: name, operator: Equals, values: [dc]}", EVERYWHERE, False),
        ("{key: name, operator: Equals, values: [web]}", "weight: 1", True),
        ("{key: pod/labels/app, operator: Equals, values: [shop]}", "symmetric: true", False),
        ("{key: pod/labels/app, operator: Equals, values: [db]}", "weight: 1", True),
        (
            "{key: ':qosclass:name', operator: Equals, values: ['Guaranteed:db']}",
            "symmetric: true",
            False,
        ),
        ("{not: {key: name, operator: Equals, values: [web]}}", "symmetric: true", False),
        ("{not: {key: pod/name, operator: Exists}}", "weight: 1", True),
        ("{any: [{key: name, operator: Equals, values: [x]}]}", "weight: 1", True),
        ("{key: labels/io.kubernetes.container.name, operator: Equals, values: [x]}", "", True),
        ("{key: labels/of.a/runtime, operator: Equals, values: [x]}", "weight: 1", False),
        ("{key: tags/x, operator: Exists}", "weight: 1", False),
        ("{not: {key: pod/uid, operator: Exists}}", "weight: 1", False),
    ],
)
def test_a_rule_that_can_match_nobody_is_advised_against(
    match: str, scope: str, is_advised: bool
) -> None:
    found = lint(RULE.format(match, scope))
    said = (
        "shop.yaml:10:9: advice: resource-policy.nri.io/affinity of default/shop/web:"
        " the rule matches no other container of its pod, and looks at no others"
    )
    assert [one.partition(" — ")[0] for one in found] == ([said] if is_advised else [])


@pytest.mark.parametrize(
    ("scope", "match", "label"),
    [
        ("", "{key: labels/app, operator: Equals, values: [db]}", "app"),
        ("scope: {key: labels/tier, operator: Exists}", "{operator: AlwaysTrue}", "tier"),
        ("", "{key: ':,-name,labels/tier', operator: Equals, values: [db-x]}", "tier"),
        ("", "{not: {any: [{key: labels/app, operator: Exists}]}}", "app"),
        ("", "{key: labels/app.kubernetes.io/name, operator: Exists}", "app.kubernetes.io/name"),
        ("", "{key: labels/example.com/role, operator: Exists}", "example.com/role"),
        ("", "{key: labels/example.com/other, operator: Exists}", None),
        ("", "{key: labels/io.kubernetes.pod.uid, operator: Exists}", None),
        ("", "{key: pod/labels/app, operator: Equals, values: [shop]}", None),
    ],
)
def test_a_label_of_pods_that_is_looked_for_on_containers_is_advised_of(
    scope: str, match: str, label: str | None
) -> None:
    labels = "labels: {app: shop"
    text = POD.replace(labels, f"{labels}, example.com/role: web").replace("WEB", WHOLE)
    text = text.replace("ANNOTATION", RULE.format(match, scope or "symmetric: true"))
    found = [one.message for one in lint_manifests(text, PodCheck(None, None))]
    said = (
        f"resource-policy.nri.io/affinity of default/shop/web: 'labels/{label}' is about labels"
        f" that the kubelet gives to containers — write 'pod/labels/{label}' for what is under"
        " metadata.labels of a pod"
    )
    assert [one for one in found if "label" in one] == ([said] if label else [])


@pytest.mark.parametrize(
    ("rules", "config", "is_advised"),
    [
        ("web: [{match: {key: name, operator: Equals, values: [db]}}]", None, True),
        ("web: [{match: {operator: AlwaysTrue}}]", None, True),
        (
            "web: [{match: {key: name, operator: Equals, values: [db]}, symmetric: true}]",
            None,
            False,
        ),
        (
            "web: [{match: {key: name, operator: Equals, values: [db]}}]",
            Config(symmetric_affinity=True),
            False,
        ),
        ("web: [{scope: {operator: AlwaysTrue}, match: {operator: AlwaysTrue}}]", None, False),
        ("db: [{match: {key: name, operator: Equals, values: [web]}}]", None, False),
        (
            "{web: [{match: {operator: AlwaysTrue}}], db: [{match: {operator: AlwaysTrue}}]}",
            None,
            False,
        ),
        ("web: [db]", None, False),
    ],
)
def test_a_rule_about_containers_that_come_later_is_probably_meant_both_ways(
    rules: str, config: Config | None, is_advised: bool
) -> None:
    found = lint(f"resource-policy.nri.io/affinity: |\n      {rules}", config=config)
    said = (
        "advice: resource-policy.nri.io/affinity of default/shop/web: the rule counts when 'web' is"
        " placed, and container 'db' does not exist yet then — write 'symmetric: true', so that it"
        " counts for 'db' too"
    )
    assert [one.partition(": ")[2] for one in found] == ([said] if is_advised else [])


PACKED = "smt.pinfold.dev/{}: pack"
NRI = '{}.resource-policy.nri.io/pod: "true"'
AS_BURSTABLE = "as its pod is Burstable, and this is about those alone — set limits"


@pytest.mark.parametrize(
    ("annotation", "web", "what"),
    [
        pytest.param(PACKED.format("pod"), WHOLE, "", id="one of its containers has some"),
        pytest.param(PACKED.format("container.web"), WHOLE, "", id="it has some"),
        pytest.param(
            PACKED.format("container.db"), WHOLE, "as it asks for no whole ones", id="a fraction"
        ),
        pytest.param(PACKED.format("pod"), BURSTABLE, AS_BURSTABLE, id="of a pod without any"),
        pytest.param("smt.pinfold.dev/pod: hide", BURSTABLE, "", id="threads of shared ones"),
        pytest.param(
            "quota.pinfold.dev/pod: lift", "{cpu: 500m, memory: 1Mi}", "no whole ones", id="quota"
        ),
        pytest.param("quota.pinfold.dev/pod: keep", BURSTABLE, "", id="as it is anyway"),
        pytest.param(
            'require-isolated-cpus.resource-policy.nri.io/pod: "true"',
            BURSTABLE,
            AS_BURSTABLE,
            id="isolated ones",
        ),
        pytest.param(
            'prefer-isolated-cpus.resource-policy.nri.io/pod: "false"', BURSTABLE, "", id="none"
        ),
        pytest.param(
            "prefer-cpu-priority.resource-policy.nri.io/pod: high",
            BURSTABLE,
            AS_BURSTABLE,
            id="fast ones",
        ),
        pytest.param(
            PACKED.format("pod") + '\n    exclusive.pinfold.dev/container.web: "2"',
            BURSTABLE,
            "",
            id="of one with some by annotation",
        ),
        pytest.param(
            PACKED.format("container.web") + "\n    exclusive.pinfold.dev/container.web: request",
            "{memory: 1Mi}",
            "as it asks for no whole ones, and this is about those alone — ask for whole CPUs",
            id="of one that wants what it asks for, and that is nothing",
        ),
        pytest.param(
            PACKED.format("pod") + '\n    pod-pool.pinfold.dev/pod: "true"',
            WHOLE,
            "",
            id="of a pod with a pen",
        ),
        pytest.param(
            f"{PACKED.format('container.web')}\n    {NRI.format('prefer-shared-cpus')}",
            WHOLE,
            "as prefer-shared-cpus.resource-policy.nri.io/pod makes it share them, and this is"
            " about those alone — leave out one of them",
            id="of one that is to share",
        ),
        pytest.param(
            f"{PACKED.format('container.web')}\n    {NRI.format('prefer-reserved-cpus')}",
            WHOLE,
            "as it is on the reserved ones, and this is about those alone — leave it out",
            id="of one on the reserved ones",
        ),
        pytest.param(
            f"{PACKED.format('container.web')}\n    {NRI.format('cpu.preserve')}",
            WHOLE,
            "as it keeps those that it has from elsewhere, and this is about those alone — leave",
            id="of one that is left alone",
        ),
    ],
)
def test_wishes_about_cpus_of_its_own_need_some(annotation: str, web: str, what: str) -> None:
    found = [one for one in lint(annotation, web) if "it has no CPUs of its own, " in one]
    assert len(found) == int(bool(what))
    assert all(what in one for one in found)


def test_a_wish_that_a_rule_gives_to_many_pods_is_not_advised_of() -> None:
    rule = AnnotationRule(name="all", annotations={"smt.pinfold.dev": "pack"})
    assert lint("x.y/z: a", BURSTABLE, config=Config(rules=(rule,))) == []


SELECTOR = "pool-selector.pinfold.dev/pod: {}"
LABELLED = Config(pool_labels=(PoolLabels(pool="*", labels={"disk": "fast"}),))


@pytest.mark.parametrize(
    ("selector", "config", "what"),
    [
        pytest.param("sokcet=1", None, "did you mean 'socket'?", id="a slip"),
        pytest.param("memory.dram-gb=1", Config(), "did you mean 'memory.dram-gib'?", id="a unit"),
        pytest.param("disc=fast", LABELLED, "did you mean 'disk'?", id="a label of the nodes"),
        pytest.param("rack=1", Config(), "no pool has a label 'rack'", id="nobody's"),
    ],
)
def test_a_label_that_no_pool_has_is_found_without_a_machine(
    selector: str, config: Config | None, what: str
) -> None:
    (found,) = lint(SELECTOR.format(selector), config=config)
    assert found.startswith("shop.yaml:8:5: pool-selector.pinfold.dev/pod of default/shop/")
    assert what in found


def pool_rules(kind: str, rules: str) -> str:
    field = f"{kind}DuringSchedulingIgnoredDuringExecution"
    return f"affinity.pinfold.dev/pod: |\n      poolAffinity: {{{field}: {rules}}}"


def slip(operator: str) -> str:
    return f"matchExpressions: [{{key: isolatd, operator: {operator}}}]"


def requiring(operator: str) -> str:
    return pool_rules("required", f"{{nodeSelectorTerms: [{{{slip(operator)}}}]}}")


def preferring(operator: str) -> str:
    return pool_rules("preferred", f"[{{weight: 5, preference: {{{slip(operator)}}}}}]")


@pytest.mark.parametrize("machine", ["", MACHINE])
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(requiring("DoesNotExist"), id="all pools lack it"),
        pytest.param(requiring("Exists"), id="no pool has it"),
        pytest.param(preferring("DoesNotExist"), id="preferred where it is not"),
        pytest.param(preferring("Exists"), id="preferred where it is"),
    ],
)
def test_a_slip_in_a_label_of_pools_is_found_once(rule: str, machine: str) -> None:
    (found,) = lint(rule, machine=machine)
    assert "'isolatd'" in found


@pytest.mark.parametrize(
    ("selector", "config"),
    [
        pytest.param("socket=1, cpu.flag/avx2=true, cpu.max-mhz=2000", None, id="known ones"),
        pytest.param("rack=1", None, id="one that nodes may have"),
        pytest.param("disk=fast", LABELLED, id="one that the nodes have"),
    ],
)
def test_a_label_that_some_pool_may_have_is_no_fault(selector: str, config: Config | None) -> None:
    assert lint(SELECTOR.format(selector), config=config) == []


def test_each_pod_is_placed_alone_on_the_machine() -> None:
    assert lint("a.b/d: e", "{cpu: 7, memory: 1Mi}", machine=MACHINE) != []
    text = POD.replace("ANNOTATION", "a.b/d: e").replace("WEB", "{cpu: 3, memory: 1Mi}")
    several = "---\n".join(text.replace("name: shop", f"name: shop{one}") for one in range(9))
    assert lint_manifests(several, PodCheck(None, machine_from_spec(MACHINE))) == ()


def test_a_container_without_room_is_found_at_its_name() -> None:
    (found,) = lint("a.b/d: e", "{cpu: 90, memory: 1Mi}", machine=MACHINE)
    assert found.startswith(
        "shop.yaml:11:11: default/shop/web: refused: no pool has room for 90 exclusive CPUs"
    )


def test_init_containers_that_ended_leave_their_room() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  initContainers:
  - {name: one, resources: {limits: {cpu: 7, memory: 1Mi}}}
  - {name: two, resources: {limits: {cpu: 7, memory: 1Mi}}}
  containers:
  - {name: main, resources: {limits: {cpu: 7, memory: 1Mi}}}
"""
    check = PodCheck(None, machine_from_spec("core:8 mem:1G"))
    assert lint_manifests(pod, check) == ()
    (found,) = lint_manifests(pod.replace("cpu: 7", "cpu: 9"), check)
    assert found.problem.where == "default/p/one", "nothing else starts before it"


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (
            POD.replace("WEB", "{cpu: many}").replace("ANNOTATION", "e.f/g: h"),
            "12:31",
            "spec.containers[0].resources.limits.cpu: ",
        ),
        ("kind: Pod\nmetadata: {name: p}\nspec: {}", "3:7", "spec.containers: is empty"),
    ],
)
def test_a_pod_that_cannot_be_read_is_found(text: str, place: str, what: str) -> None:
    found = [finding_text(one, "p.yaml") for one in lint_manifests(text, PodCheck(None, None))]
    assert any(one.startswith(f"p.yaml:{place}: {what}") for one in found)


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_annotations_beside_the_template_are_found(kind: str) -> None:
    text = f"""\
kind: {kind}
metadata:
  name: d
  annotations:
    kubernetes.io/change-cause: mine
    smt.pinfold.dev/pod: pack
"""
    (found,) = lint_manifests(text)
    assert finding_text(found, "d.yaml").startswith(
        f"d.yaml:6:5: smt.pinfold.dev/pod: the annotations of a {kind} itself do not reach its pods"
        " — move it to spec."
    )


@pytest.mark.parametrize(("name", "text"), DEMO_PODS, ids=[name for name, _ in DEMO_PODS])
def test_the_example_pods_are_without_fault(name: str, text: str) -> None:
    assert lint_manifests(text, PodCheck(None, machine_from_spec(MACHINE))) == (), name


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, ["lint", *arguments], input=text)


ADVISED = POD.replace("WEB", WHOLE).replace(
    "ANNOTATION", RULE.format("{key: name, operator: Equals, values: [dc]}", "weight: 1")
)


@pytest.mark.parametrize(
    ("text", "arguments", "status", "said"),
    [
        pytest.param(ADVISED, [], 0, "standard input:10:9: advice: ", id="advice is no fault"),
        pytest.param(
            POD.replace("WEB", "{cpu: 90, memory: 1Mi}").replace("ANNOTATION", "e.f/g: h"),
            [f"--machine={MACHINE}"],
            1,
            "standard input:11:11: default/shop/web: refused: ",
            id="no room",
        ),
        pytest.param("pinCPU: true", [f"--machine={MACHINE}"], 0, "", id="a configuration"),
        pytest.param(
            "reservedResources: {cpu: 40}",
            [f"--machine={MACHINE}"],
            1,
            "standard input:1:21: reservedResources.cpu: '40' reserves 40 cpus of 8 usable ones",
            id="a configuration that does not fit the machine",
        ),
        pytest.param(
            "reservedResources: {cpu: 'cpuset:0,99'}",
            [f"--machine={MACHINE}"],
            0,
            "standard input:1:21: advice: reservedResources.cpu: cpus 99",
            id="a configuration with a warning",
        ),
        pytest.param(
            "kind: Service", [], 0, "standard input: nothing to check — ", id="nothing to check"
        ),
        pytest.param("a: b", ["--machine=core:0"], 2, "core:0", id="a bad machine"),
        pytest.param("a: b", ["--config=/nowhere/x.yaml"], 2, "/nowhere/x.yaml", id="no config"),
    ],
)
def test_the_status_of_what_comes_from_standard_input(
    text: str, arguments: list[str], status: int, said: str
) -> None:
    result = run("-", *arguments, text=text)
    assert (result.exit_code, said in result.output) == (status, True), result.output


def test_of_a_text_that_is_no_yaml_nothing_else_is_said() -> None:
    (complaint,) = run("-", text="a: [b").output.splitlines()
    assert "not valid YAML" in complaint


def test_the_command_asks_the_configuration(tmp_path: Path) -> None:
    config, pod = tmp_path / "node.yaml", tmp_path / "pod.yaml"
    config.write_text("onBadAnnotation: ignore\n")
    pod.write_text(POD.replace("WEB", WHOLE).replace("ANNOTATION", CLASS.format("pod")))
    assert run(str(pod)).exit_code == 0
    result = run(str(pod), f"--config={config}")
    assert result.exit_code == 1
    assert "this node has no cpu classes" in result.output


def test_an_annotation_without_its_quotes_is_one_fault() -> None:
    (complaint,) = lint("prefer-shared-cpus.resource-policy.nri.io/pod: true")
    assert "the value 'true' is not a string — put it in quotes" in complaint


RULES = """\
kind: Pod
metadata:
  name: web
  labels: {pinfold.dev/rack: a}
  annotations:
    pool-name.pinfold.dev/container.main: NUMA node 0
    affinity.pinfold.dev/pod: |
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {topologyKey: core, labelSelector: {}, namespaceSelector: {matchLabels: {tier: gold}}}
        - {topologyKey: numa, labelSelector: {}, namespaceSelector: {matchLabels: {tier: gold}}}
        - {topologyKey: nmua, labelSelector: {}}
spec: {containers: [{name: main}]}
apiVersion: v1
"""


def linted_rules(tmp_path: Path, *arguments: str) -> list[tuple[int, str]]:
    path = tmp_path / "pod.yaml"
    path.write_text(RULES)
    lines = run(str(path), *arguments).stdout.replace(f"{path}:", "").splitlines()
    return [
        (int(line), what)
        for line, colon, what in (one.partition(":") for one in lines)
        if colon and line.isdigit()
    ]


def test_rules_at_a_level_are_checked_and_reviewed_with_their_lines(tmp_path: Path) -> None:
    (redundant_line, redundant), (level_line, level) = linted_rules(tmp_path)
    assert (redundant_line, level_line) == (10, 12)
    assert "follows from anti-affinity at numa" in redundant
    assert "unknown topologyKey 'nmua'" in level


def test_rules_at_a_level_are_checked_against_the_nodes_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("racks: {b: {}}\n")
    found = " ".join(what for _, what in linted_rules(tmp_path, "--config", str(config)))
    assert "the node's configuration has no rack 'a'" in found
    assert "nobody told this node the label 'tier' of any namespace" in found


@pytest.mark.parametrize(
    ("labels", "racks", "is_told"),
    [
        ("pinfold.dev/rack: a, pinfold.dev/resource-set: db", "{a: {numa: {enabled: true}}}", True),
        ("pinfold.dev/rack: a", "{a: {numa: {enabled: true}}}", False),
        ("pinfold.dev/resource-set: db", "{a: {numa: {enabled: true}}}", False),
        ("pinfold.dev/rack: a, pinfold.dev/resource-set: db", "{a: {l3: {enabled: true}}}", False),
    ],
)
def test_a_pod_of_a_rack_and_a_set_that_cannot_be_together_is_told(
    labels: str, racks: str, is_told: bool, tmp_path: Path
) -> None:
    pod, config = tmp_path / "pod.yaml", tmp_path / "config.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: main}]}\n"
        f"metadata: {{name: db, labels: {{{labels}}}}}\n"
    )
    config.write_text(f"racks: {racks}\n")
    checked = run(str(pod), f"--config={config}")
    said = (
        "advice: label pinfold.dev/rack of default/db: rack 'a' wants its pods in one NUMA node,"
        " where antiAffinity.numa keeps those of one resource set apart, of which the pod is one —"
        " leave one of the labels out, or write antiAffinity: {numa: {enabled: false}}\n"
    )
    assert (checked.exit_code, checked.stdout.count(said)) == (0, int(is_told)), checked.output


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("NUMA node 0", "did you mean 'NUMA node #0'?"),
        ("numa node #9", "one of NUMA node #0, NUMA node #1"),
        ("NUMA node #0/5", "did you mean 'NUMA node #0'?"),
        ("numa node #1", "did you mean 'NUMA node #1'?"),
    ],
)
def test_of_pools_that_differ_by_a_number_none_is_likelier(
    tmp_path: Path, name: str, fix: str
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(RULES.replace("NUMA node 0", f"'{name}'"))
    found = run(str(path), "--machine", "socket:1 numa:2 core:2 mem:1G").stdout
    assert f"has no pool '{name}' — {fix}\n" in found


def test_rules_about_pools_are_checked_against_the_machine(tmp_path: Path) -> None:
    (line, what), *_ = linted_rules(tmp_path, "--machine", "socket:1 numa:2 core:2 mem:1G")
    assert line == 6
    assert "has no pool 'NUMA node 0' — did you mean 'NUMA node #0'?" in what


KEPT_OUT = (
    "affinity.pinfold.dev/pod: '{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
    " [{labelSelector: {matchLabels: {app: shop}}, topologyKey: numa, mismatchLabelKeys:"
    " [pod.uid]}]}}'"
)


@pytest.mark.parametrize(
    ("wish", "is_told"),
    [
        pytest.param("a.b/e: f", True, id="each where it likes to be"),
        pytest.param(POD_POOL, False, id="in one set of cpus"),
        pytest.param("resource-policy.nri.io/affinity: 'web: [db]'", False, id="by weights"),
    ],
)
def test_a_pod_that_keeps_its_like_out_of_several_domains_is_told(
    wish: str, *, is_told: bool
) -> None:
    found = lint(f"{KEPT_OUT}\n    {wish}")
    assert any("keep other pods like it out of each" in one for one in found) is is_told, found

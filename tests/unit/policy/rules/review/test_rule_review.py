"""What lint says of placement rules that are written well and yet make little sense."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import Resources
from pinfold.policy.pools.pool_labels import pool_labels
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.rules.review.mate_review import (
    reviewed_counts,
    reviewed_footprint,
    reviewed_mates,
)
from pinfold.policy.rules.review.pool_review import reviewed_absences, reviewed_pools
from pinfold.policy.rules.review.rule_review import (
    reviewed_rules,
)
from pinfold.topology.made.spec import machine_from_spec

from ..podaffinity.rule_cases import container

FIELD = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_FIELD = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = "labelSelector: {matchLabels: {app: web}}"


def rules(near: str = "", apart: str = "") -> str:
    """Terms of required affinity and anti-affinity, each in a line of its own."""
    lines: list[str] = []
    for section, terms in (("podAffinity", near), ("podAntiAffinity", apart)):
        if terms:
            items = "".join(f"  - {{{term}}}\n" for term in terms.splitlines())
            lines.append(f"{section}:\n  {FIELD}:\n{items}")
    return "".join(lines)


def findings(annotations: Mapping[str, str], *names: str, config: str = "") -> list[str]:
    labels = {"pinfold.dev/rack": "a"}
    pod = [container(name, labels=labels, annotations=annotations) for name in names or ("main",)]
    found = reviewed_rules(pod, read_config(config).config if config else Config())
    return [f"{'advice: ' if one.is_advice else ''}{one}" for one in found]


def of_pod(near: str = "", apart: str = "", config: str = "") -> list[str]:
    return findings({"affinity.pinfold.dev/pod": rules(near, apart)}, config=config)


def test_rules_that_follow_from_others_are_redundant() -> None:
    for narrow, wide in (("core", "numa"), ("cluster", "l3"), ("numa", "socket")):
        (found,) = of_pod(apart=f"{WEB}, topologyKey: {narrow}\n{WEB}, topologyKey: {wide}")
        assert found.startswith("advice: affinity.pinfold.dev/pod of default/pod/main:3:0: follows")
        assert f"anti-affinity at {wide}" in found
        (found,) = of_pod(near=f"{WEB}, topologyKey: {narrow}\n{WEB}, topologyKey: {wide}")
        assert found.startswith("advice: affinity.pinfold.dev/pod of default/pod/main:4:0: follows")
        assert f"affinity at {narrow}" in found


def test_nothing_follows_between_levels_that_need_not_nest() -> None:
    assert of_pod(apart=f"{WEB}, topologyKey: numa\n{WEB}, topologyKey: l3") == []
    assert of_pod(apart=f"{WEB}, topologyKey: numa\n{WEB}, topologyKey: cluster") == []


@pytest.mark.parametrize(
    ("term", "is_told"),
    [
        pytest.param("labelSelector: {}", True, id="about everything"),
        pytest.param(
            "labelSelector: {matchLabels: {pinfold.dev/rack: a}}", True, id="about its own label"
        ),
        pytest.param(WEB, False, id="about other pods alone"),
        pytest.param("labelSelector: {}, mismatchLabelKeys: [pod.uid]", False, id="but itself"),
        pytest.param(
            "labelSelector: {matchLabels: {container.name: log}}", False, id="about containers"
        ),
        pytest.param("labelSelector: {}, scope: pod", False, id="about the pod itself"),
    ],
)
def test_anti_affinity_that_keeps_containers_of_the_pod_apart_is_told_once(
    term: str, *, is_told: bool
) -> None:
    what = (
        "keeps containers of the pod itself apart, too: 'main', 'log'"
        " — add 'mismatchLabelKeys: [pod.uid]' where other pods are meant"
    )
    wished = f"- weight: 1\n    podAffinityTerm: {{{term}, topologyKey: core}}"
    for text in (
        rules(apart=f"{term}, topologyKey: core"),
        f"podAntiAffinity:\n  {PREFERRED_FIELD}:\n  {wished}\n",
    ):
        annotations = {"affinity.pinfold.dev/pod": text}
        labels = {"pinfold.dev/rack": "a"}
        pod = [container(one, labels=labels, annotations=annotations) for one in ("main", "log")]
        found = [str(one) for one in reviewed_mates(pod, Config()) if one.is_advice]
        told = f"affinity.pinfold.dev/pod of default/pod/main:3:0: {what}"
        assert found == ([told] if is_told else []), text
        assert not list(reviewed_mates(pod[:1], Config()))


@pytest.mark.parametrize(
    ("term", "near", "is_told"),
    [
        pytest.param(f"{WEB}, topologyKey: numa", "", True, id="about the like of all"),
        pytest.param(f"{WEB}, topologyKey: core", "", False, id="no place for a pod"),
        pytest.param(
            "labelSelector: {matchLabels: {container.name: main}}, topologyKey: numa",
            "",
            True,
            id="about one container, which all of them keep out",
        ),
        pytest.param(f"{WEB}, topologyKey: numa", "numa", False, id="together there"),
        pytest.param(f"{WEB}, topologyKey: numa", "core", False, id="together inside"),
        pytest.param(f"{WEB}, topologyKey: numa", "socket", True, id="together in wider ones"),
    ],
)
def test_pods_that_fill_more_domains_than_they_need_are_told(
    term: str, near: str, *, is_told: bool
) -> None:
    together = f"labelSelector: {{}}, scope: pod, topologyKey: {near}"
    text = rules(apart=f"{term}, mismatchLabelKeys: [pod.uid]", near=together if near else "")
    annotations = {"affinity.pinfold.dev/pod": text}
    pod = [container(one, labels={"app": "web"}, annotations=annotations) for one in ("main", "x")]
    found = [str(one) for one in reviewed_footprint(pod, Config()) if one.is_advice]
    assert len(found) == int(is_told)
    for one in found:
        assert "may be in several NUMA nodes, and keep other pods like it out of each" in one
        assert "'topologyKey: numa' and 'scope: pod'" in one
    assert not list(reviewed_footprint(pod[:1], Config()))


@pytest.mark.parametrize(
    ("section", "is_told"),
    [
        pytest.param("podAffinity:\n", False, id="together"),
        pytest.param("", True, id="apart, as what is required of other pods"),
    ],
)
def test_a_pod_that_prefers_to_be_together_follows_the_advice(
    section: str, *, is_told: bool
) -> None:
    term = "labelSelector: {}, scope: pod, topologyKey: numa"
    wish = f"- weight: 100\n    podAffinityTerm: {{{term}}}"
    apart = rules(apart=f"{WEB}, topologyKey: numa, mismatchLabelKeys: [pod.uid]")
    text = f"{apart}{section}  {PREFERRED_FIELD}:\n  {wish}\n"
    annotations = {"affinity.pinfold.dev/pod": text}
    pod = [container(one, labels={"app": "web"}, annotations=annotations) for one in ("main", "x")]
    assert len(list(reviewed_footprint(pod, Config()))) == is_told


def test_preferred_affinity_keeps_no_containers_apart() -> None:
    wish = "- weight: 1\n    podAffinityTerm: {labelSelector: {}, topologyKey: core}"
    text = f"podAffinity:\n  {PREFERRED_FIELD}:\n  {wish}\n"
    annotations = {"affinity.pinfold.dev/pod": text}
    pod = [container(one, annotations=annotations) for one in ("main", "log")]
    assert not list(reviewed_mates(pod, Config()))


@pytest.mark.parametrize(
    ("wish", "is_told"),
    [
        pytest.param({"pool-name.D/pod": "NUMA node #1"}, False, id="in one pool"),
        pytest.param({"pool-name.D/pod": "die #1/0/NUMA node #1"}, False, id="in that of a die"),
        pytest.param({"pool-name.D/pod": "socket #1"}, True, id="in the pool of a socket"),
        pytest.param({"pool-name.D/pod": "root"}, True, id="in that of all sockets"),
        pytest.param({"pool-name.D/pod": "socket #0/L3 cache #1"}, True, id="in one of an L3"),
        pytest.param({"pool-selector.D/pod": "numa=1"}, False, id="in the pools of a NUMA node"),
        pytest.param({"pool-selector.D/pod": "socket=1"}, True, id="in those of a socket"),
        pytest.param({"pool-selector.D/pod": "kind=numa"}, True, id="in some NUMA node"),
        pytest.param(
            {"pool-name.D/container.main": "NUMA node #1", "pool-selector.D/container.x": "numa=1"},
            False,
            id="in the same one, by its pool's name and its label",
        ),
        pytest.param(
            {
                "pool-name.D/container.main": "NUMA node #1",
                "pool-name.D/container.x": "NUMA node #0",
            },
            True,
            id="each in another one",
        ),
        pytest.param({"pool-name.D/container.main": "NUMA node #1"}, True, id="one alone"),
    ],
)
def test_a_pod_that_is_bound_to_one_domain_does_not_fill_more_of_them(
    wish: Mapping[str, str], *, is_told: bool
) -> None:
    text = rules(apart=f"{WEB}, topologyKey: numa, mismatchLabelKeys: [pod.uid]")
    told = {key.replace(".D/", ".pinfold.dev/"): value for key, value in wish.items()}
    annotations = {"affinity.pinfold.dev/pod": text, **told}
    pod = [container(one, labels={"app": "web"}, annotations=annotations) for one in ("main", "x")]
    assert len(list(reviewed_footprint(pod, Config()))) == is_told


@pytest.mark.parametrize(
    ("nodes", "is_told"),
    [
        pytest.param(["0"], False, id="in one NUMA node"),
        pytest.param(["0, 1"], True, id="in either of two"),
        pytest.param(["0", "1"], True, id="in either of two, by terms of their own"),
    ],
)
def test_pods_that_are_bound_to_one_of_several_domains_may_be_in_all(
    nodes: Sequence[str], *, is_told: bool
) -> None:
    text = rules(apart=f"{WEB}, topologyKey: numa, mismatchLabelKeys: [pod.uid]")
    terms = "".join(
        f"    - matchExpressions: [{{key: numa, operator: In, values: [{one}]}}]\n" for one in nodes
    )
    text += f"poolAffinity:\n  {FIELD}:\n    nodeSelectorTerms:\n{terms}"
    annotations = {"affinity.pinfold.dev/pod": text}
    pod = [container(one, labels={"app": "web"}, annotations=annotations) for one in ("main", "x")]
    assert len(list(reviewed_footprint(pod, Config()))) == is_told


@pytest.mark.parametrize(("name", "is_told"), [("socket #0/L3 cache #1", False), ("root", True)])
def test_of_a_rule_at_a_socket_whatever_lies_in_one_counts(name: str, *, is_told: bool) -> None:
    text = rules(apart=f"{WEB}, topologyKey: socket, mismatchLabelKeys: [pod.uid]")
    annotations = {"affinity.pinfold.dev/pod": text, "pool-name.pinfold.dev/pod": name}
    pod = [container(one, labels={"app": "web"}, annotations=annotations) for one in ("main", "x")]
    assert len(list(reviewed_footprint(pod, Config()))) == is_told


@pytest.mark.parametrize("count", [1, 2])
def test_a_pod_fills_no_more_domains_than_a_machine_has(count: int) -> None:
    annotations = {
        "affinity.pinfold.dev/pod": rules(
            apart=f"{WEB}, topologyKey: numa, mismatchLabelKeys: [pod.uid]"
        )
    }
    pod = [container(one, labels={"app": "web"}, annotations=annotations) for one in ("main", "x")]
    masks = [0b11 << 2 * number for number in range(count)]
    found = list(reviewed_footprint(pod, Config(), lambda _: masks))
    assert len(found) == count - 1


def test_a_container_that_keeps_apart_from_its_own_like_alone_fills_one_domain() -> None:
    term = "labelSelector: {matchLabels: {container.name: main}}, topologyKey: numa"
    text = rules(apart=f"{term}, mismatchLabelKeys: [pod.uid]")
    annotations = {"affinity.pinfold.dev/container.main": text}
    pod = [container(one, annotations=annotations) for one in ("main", "x")]
    assert not list(reviewed_footprint(pod, Config()))


@pytest.mark.parametrize(
    ("rule", "millis", "is_told"),
    [
        pytest.param(f"{WEB}", (2000, 100), True, id="a main container and its sidecar"),
        pytest.param(f"{WEB}", (1000, 1000), False, id="replicas in one pod"),
        pytest.param(
            "labelSelector: {matchLabels: {container.name: main}}",
            (2000, 100),
            False,
            id="one name",
        ),
        pytest.param("labelSelector: {matchLabels: {app: db}}", (2000, 100), False, id="others"),
    ],
)
def test_a_spread_that_counts_sidecars_as_their_main_containers_is_told_once(
    rule: str, millis: tuple[int, int], *, is_told: bool
) -> None:
    text = f"topologySpread:\n- {{maxSkew: 1, topologyKey: numa, {rule}}}\n"
    annotations = {"affinity.pinfold.dev/pod": text}
    pod = [
        replace(
            container(name, labels={"app": "web"}, annotations=annotations),
            resources=Resources(cpu_request_milli=milli),
        )
        for name, milli in zip(("main", "log"), millis, strict=True)
    ]
    found = [str(one) for one in reviewed_counts(pod, Config()) if one.is_advice]
    assert len(found) == int(is_told)
    for one in found:
        assert one.startswith("affinity.pinfold.dev/pod of default/pod/main:2:0: counts containers")
        assert "'log', 'main'. Those of one name may be in one NUMA node" in one


def test_what_is_required_during_execution_has_no_findings() -> None:
    text = rules(apart=f"{WEB}, topologyKey: numa").replace("IgnoredDuring", "RequiredDuring")
    assert findings({"affinity.pinfold.dev/pod": text}) == []


def test_the_same_rule_twice_is_redundant() -> None:
    (found,) = of_pod(apart=f"{WEB}, topologyKey: numa\n{WEB}, topologyKey: numa")
    assert "says the same as anti-affinity at numa to app=web" in found


def test_rules_about_others_are_not_compared() -> None:
    other = "labelSelector: {matchLabels: {app: db}}"
    assert of_pod(apart=f"{WEB}, topologyKey: numa\n{other}, topologyKey: numa") == []
    everywhere = f"{WEB}, namespaceSelector: {{}}, topologyKey: numa"
    assert of_pod(apart=f"{WEB}, topologyKey: numa\n{everywhere}") == []


@pytest.mark.parametrize(
    ("near", "apart", "is_contradiction"),
    [
        ("numa", "numa", True),
        ("core", "numa", True),
        ("l3", "socket", True),
        ("numa", "core", False),
        ("numa", "l3", False),
        # Without clusters it is L3 caches, which span NUMA nodes on some machines.
        ("cluster", "numa", False),
    ],
)
def test_a_contradiction_is_a_fault(near: str, apart: str, *, is_contradiction: bool) -> None:
    found = of_pod(near=f"{WEB}, topologyKey: {near}", apart=f"{WEB}, topologyKey: {apart}")
    assert len(found) == int(is_contradiction)
    for one in found:
        assert one.startswith("affinity.pinfold.dev/pod of default/pod/main:3:0: contradicts")


def test_a_machine_whose_caches_span_sockets_has_the_last_word() -> None:
    text = rules(near=f"{WEB}, topologyKey: l3", apart=f"{WEB}, topologyKey: socket")
    pod = [container("main", annotations={"affinity.pinfold.dev/pod": text})]
    assert not list(reviewed_rules(pod, Config(), lambda inner, outer: inner is outer))
    (found,) = reviewed_rules(pod, Config(), lambda _inner, _outer: True)
    assert "it can never hold together with it — leave" in str(found)


@pytest.mark.parametrize(
    ("apart", "is_contradiction"),
    [
        pytest.param("labelSelector: {}", True, id="to everybody"),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}",
            True,
            id="to all but others",
        ),
        pytest.param(
            "labelSelector: {matchLabels: {app: web, tier: gold}}", False, id="to some of them"
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}",
            False,
            id="to all but them",
        ),
        pytest.param("labelSelector: {}, scope: pod", False, id="to its own pod"),
    ],
)
def test_nobody_can_be_with_one_of_whom_it_keeps_apart_from_all(
    apart: str, *, is_contradiction: bool
) -> None:
    found = of_pod(near=f"{WEB}, topologyKey: l3", apart=f"{apart}, topologyKey: l3")
    assert sum("contradicts" in one for one in found) == int(is_contradiction)


def test_anti_affinity_to_some_follows_from_that_to_all() -> None:
    terms = f"{WEB}, topologyKey: core\nlabelSelector: {{}}, topologyKey: numa"
    (found,) = of_pod(apart=terms)
    assert "3:0: follows from anti-affinity at numa to everything" in found
    (found,) = of_pod(apart=terms.replace("core", "numa"))
    assert "3:0: follows from anti-affinity at numa to everything" in found
    # Of the wider level none follows, and to be with one of all is not asked for by the other.
    assert of_pod(apart=terms.replace("core", "socket")) == []
    assert not any("follows" in one for one in of_pod(near=terms))


def test_several_required_affinities_differ_under_strict() -> None:
    other = "labelSelector: {matchLabels: {app: db}}"
    (found,) = of_pod(near=f"{WEB}, topologyKey: numa\n{other}, topologyKey: numa")
    assert "under 'kubeCompat: strict' only those count that both are about" in found


RACK = "pinfold.dev/rack"


@pytest.mark.parametrize(
    ("fields", "both"),
    [
        pytest.param(
            f"labelSelector: {{matchLabels: {{{RACK}: a}}}}, mismatchLabelKeys: [{RACK}]",
            f"{RACK}=a, {RACK} not in (a)",
            id="a value, and another one than its own, which it is",
        ),
        pytest.param(
            f"labelSelector: {{matchLabels: {{{RACK}: b}}}}, mismatchLabelKeys: [{RACK}]",
            "",
            id="a value that is another one than its own",
        ),
        pytest.param(
            "labelSelector: {matchLabels: {x: y}, matchExpressions: ["
            "{key: x, operator: In, values: [z, v]}, {key: w, operator: Exists}]}",
            "x=y, x in (z, v)",
            id="two values",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: x, operator: Exists},"
            " {key: x, operator: DoesNotExist}]}",
            "x exists, no x",
            id="there and not there",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: x, operator: Exists},"
            " {key: x, operator: NotIn, values: [y]}]}",
            "",
            id="any value but one",
        ),
        pytest.param(
            "labelSelector: {matchExpressions: [{key: x, operator: DoesNotExist},"
            " {key: x, operator: NotIn, values: [y]}]}",
            "",
            id="not there at all",
        ),
    ],
)
def test_a_selector_that_no_label_can_fulfil_is_about_nobody(fields: str, both: str) -> None:
    found = of_pod(apart=f"{fields}, topologyKey: numa")
    label = both.partition(" ")[0].partition("=")[0]
    where = "advice: affinity.pinfold.dev/pod of default/pod/main:3:0"
    what = f"is about nobody: it contradicts itself about the label {label} ({both})"
    told = [f"{where}: {what}"] if both else []
    assert [one.partition(" — ")[0] for one in found] == told


def test_rules_of_the_configuration_alone_are_not_reviewed() -> None:
    config = "racks: {a: {socket: {enabled: true}, numa: {enabled: true}}}"
    assert of_pod(apart=f"{WEB}, topologyKey: core", config=config) == []


def test_a_contradiction_to_the_configuration_is_told_of_the_annotation() -> None:
    config = "racks: {a: {numa: {enabled: true, requireRackAffinity: true}}}"
    term = "labelSelector: {matchLabels: {pinfold.dev/rack: a}}, topologyKey: socket"
    (found,) = of_pod(apart=term, config=config)
    assert found.startswith("affinity.pinfold.dev/pod of default/pod/main:3:0: contradicts")
    assert "(racks.a.numa)" in found


def sibling(name: str) -> str:
    return rules(
        f"labelSelector: {{matchLabels: {{container.name: {name}}}}}, scope: pod, topologyKey: l3"
    )


def test_a_sibling_that_comes_later_cannot_be_near_yet() -> None:
    texts = {"affinity.pinfold.dev/container.first": sibling("second")}
    (found,) = findings(texts, "first", "second")
    assert "container 'second' does not exist yet when the rule is judged" in found


def test_a_rule_in_one_direction_alone_is_told() -> None:
    texts = {"affinity.pinfold.dev/container.second": sibling("first")}
    (found,) = findings(texts, "first", "second")
    assert "container 'first' has no such rule" in found
    mutual = {**texts, "affinity.pinfold.dev/container.first": sibling("second")}
    assert not [one for one in findings(mutual, "first", "second") if "no such rule" in one]


def test_a_sibling_that_is_not_there_is_told() -> None:
    texts = {"affinity.pinfold.dev/container.first": sibling("third")}
    (found,) = findings(texts, "first", "second")
    assert "the pod has no container that the rule is about" in found


FIRM = {"on-unsatisfiable.pinfold.dev/pod": "fail"}


def test_one_that_insists_on_a_later_sibling_is_refused_and_told_so() -> None:
    texts = {"affinity.pinfold.dev/container.first": sibling("second"), **FIRM}
    (found,) = findings(texts, "first", "second")
    assert "does not exist yet when the rule is judged: under 'on-unsatisfiable: fail'" in found
    assert found.endswith("refused then — write the rule for the one that is created later")


def test_one_that_insists_on_a_later_sibling_of_any_pod_may_have_another() -> None:
    anywhere = sibling("second").replace("scope: pod, ", "")
    texts = {"affinity.pinfold.dev/container.first": anywhere}
    assert not [one for one in findings(texts, "first", "second") if "not exist yet" in one]
    (found,) = findings({**texts, **FIRM}, "first", "second")
    assert found.startswith("advice: affinity.pinfold.dev/container.first of default/pod/first:3:0")
    assert "this one is refused then, unless another pod has such a container" in found


def test_one_that_insists_on_its_like_is_the_first_of_them() -> None:
    alike = rules("labelSelector: {}, scope: pod, topologyKey: l3")
    assert findings({"affinity.pinfold.dev/pod": alike, **FIRM}, "first", "second") == []


@pytest.mark.parametrize(
    ("section", "field"),
    [
        pytest.param("podAntiAffinity", FIELD, id="who must keep away"),
        pytest.param("podAntiAffinity", PREFERRED_FIELD, id="who would keep away"),
        pytest.param("podAffinity", PREFERRED_FIELD, id="who would be near"),
    ],
)
def test_a_sibling_that_is_not_there_is_told_of_all_kinds_of_rules(
    section: str, field: str
) -> None:
    def told(term: str) -> list[str]:
        item = term if field == FIELD else f"weight: 5, podAffinityTerm: {{{term}}}"
        text = f"{section}:\n  {field}:\n  - {{{item}}}\n"
        return findings({"affinity.pinfold.dev/container.first": text}, "first", "second")

    by_name = "labelSelector: {matchLabels: {container.name: NAME}}, scope: pod, topologyKey: numa"
    (found,) = told(by_name.replace("NAME", "third"))
    assert found == (
        "advice: affinity.pinfold.dev/container.first of default/pod/first:3:0: the pod has no"
        " container that the rule is about — name a container of the pod"
    )
    assert told(by_name.replace("NAME", "second")) == []
    assert told(f"{WEB}, topologyKey: numa") == []


@pytest.mark.parametrize(
    ("annotations", "what"),
    [
        ({"pool-name.pinfold.dev/pod": "NUMA node #0"}, ""),
        ({"pool-name.pinfold.dev/pod": "NUMA node 0"}, "did you mean 'NUMA node #0'?"),
        ({"pool-selector.pinfold.dev/pod": "socket=1,numa=3"}, ""),
        ({"pool-selector.pinfold.dev/pod": "socket=4"}, "here socket is 0, 1"),
        ({"pool-selector.pinfold.dev/pod": "sockt=1"}, "did you mean 'socket'?"),
        ({"pool-selector.pinfold.dev/pod": "socket=0,numa=3"}, "see 'pinfold pools'"),
        ({"pool-selector.pinfold.dev/pod": "memory.hbm-gib=8"}, "the label 'memory.hbm-gib'"),
        ({"pool-selector.pinfold.dev/pod": "cpu.flag/amx=true"}, "has the label 'cpu.flag/amx'"),
        (
            {
                "affinity.pinfold.dev/pod": f"poolAffinity: {{{FIELD}: {{nodeSelectorTerms:"
                " [{matchExpressions: [{key: memory.hbm-gib, operator: DoesNotExist},"
                " {key: socket, operator: In, values: ['4']}]}]}}"
            },
            "here socket is 0, 1",
        ),
    ],
)
def test_pools_are_looked_up_on_the_machine(annotations: dict[str, str], what: str) -> None:
    machine, config = machine_from_spec("socket:2 numa:2 core:4 mem:4G"), Config()
    tree = build_tree(machine, read_supply(machine, config, CpuPicker(machine)))
    pod = [container(annotations=annotations)]
    found = [*map(str, reviewed_pools(pod, config, tree, pool_labels(tree, machine, config)))]
    assert len(found) == int(bool(what))
    assert all(what in one for one in found)


TWO_SOCKETS, ONE_NODE = "socket:2 numa:2 core:4 mem:4G", "socket:1 numa:1 core:4 mem:4G"


def absences(machine_spec: str, *terms: str, wish: str = "") -> list[str]:
    """What lint advises of pools without a label; an empty `machine_spec` is any machine."""
    written = "".join(f"    - matchExpressions: [{one}]\n" for one in terms)
    text = f"poolAffinity:\n  {FIELD}:\n    nodeSelectorTerms:\n{written}" if terms else ""
    if wish:
        text = f"poolAffinity:\n  {PREFERRED_FIELD}:\n"
        text += f"  - {{weight: 1, preference: {{matchExpressions: [{wish}]}}}}\n"
    pod, config = [container(annotations={"affinity.pinfold.dev/pod": text})], Config()
    labels: Sequence[Mapping[str, str]] = ()
    if machine_spec:
        machine = machine_from_spec(machine_spec)
        tree = build_tree(machine, read_supply(machine, config, CpuPicker(machine)))
        labels = pool_labels(tree, machine, config)
    found = [*reviewed_absences(pod, config, labels)]
    assert all(one.is_advice and one.line for one in found)
    return [f"{one.what} — {one.fix}" for one in found]


NOT_0 = '{key: socket, operator: NotIn, values: ["0"]}'
WIDE = "'socket not in (0)' is met by pools in no single socket, such as the root, too"
ADD_EXISTS = "add {key: socket, operator: Exists} to the same term"


@pytest.mark.parametrize("machine", ["", TWO_SOCKETS], ids=["any", "two sockets"])
def test_who_excludes_a_domain_is_told_that_wider_pools_are_left(machine: str) -> None:
    assert absences(machine, NOT_0) == [f"{WIDE}: they have no such label — {ADD_EXISTS}"]
    assert absences(machine, NOT_0, NOT_0) == absences(machine, NOT_0)
    assert absences(machine, wish=NOT_0) == absences(machine, NOT_0)
    assert absences(machine, f"{NOT_0}, {{key: cpus, operator: Gt, values: ['1']}}")
    assert absences(machine, f"{NOT_0}, {{key: kind, operator: In, values: [system, numa]}}")


@pytest.mark.parametrize("machine", ["", TWO_SOCKETS], ids=["any", "two sockets"])
@pytest.mark.parametrize(
    "beside",
    [
        "{key: socket, operator: Exists}",
        "{key: socket, operator: In, values: ['1', '2']}",
        "{key: numa, operator: Exists}",
        "{key: kind, operator: In, values: [numa, socket]}",
    ],
)
def test_nothing_is_told_where_another_expression_asks_for_the_label(
    machine: str, beside: str
) -> None:
    assert absences(machine, f"{NOT_0}, {beside}") == []


@pytest.mark.parametrize("machine", ["", TWO_SOCKETS], ids=["any", "two sockets"])
@pytest.mark.parametrize(
    "beside",
    ["{key: kind, operator: In, values: [system]}", "{key: socket, operator: DoesNotExist}"],
)
def test_no_label_is_asked_for_that_none_of_the_pools_left_can_have(
    machine: str, beside: str
) -> None:
    found = absences(machine, f"{NOT_0}, {beside}")
    assert found[0] == (
        f"{WIDE}: they have no such label — leave it out: the term admits no pool that has one"
    )


def test_nothing_is_told_where_each_pool_has_the_label_or_it_is_no_domain() -> None:
    assert absences(ONE_NODE, NOT_0) == []
    assert absences("", "{key: core-kind, operator: NotIn, values: [efficient]}") == []
    assert absences("", "{key: isolated, operator: DoesNotExist}") == []


def test_who_wants_no_domain_is_told_which_pools_are_left() -> None:
    (found,) = absences("", "{key: numa, operator: DoesNotExist}")
    what, _, fix = found.partition(" — ")
    assert what == (
        "'no numa' is met by those pools alone that are in no single NUMA node, such as the root"
    )
    kinds = "{key: kind, operator: In, values: [system, socket, die]}"
    assert fix == f"add {kinds} if those are meant, else leave it out"
    assert absences("", f"{{key: numa, operator: DoesNotExist}}, {kinds}") == []

"""Rules of the configuration: whom they are for, and what racks and resource sets come to."""

import pytest
import yaml

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.rules.podaffinity.affinity_text import parse_affinity_text
from pinfold.policy.rules.podaffinity.configured_rules import (
    configured_rules,
    expansion,
    pod_expansion,
)
from pinfold.policy.rules.podaffinity.namespace_scope import NO_NAMESPACE_LABELS
from pinfold.policy.rules.podaffinity.rule_set import PlacementRules
from pinfold.policy.rules.podaffinity.rule_text import placement_rules
from pinfold.policy.text.errors import ConfigError

from .rule_cases import affinity, container

RACKS = """\
racks:
  rack1: {socket: {enabled: true}}
  rack2: {numa: {enabled: true, requireRackAffinity: true, requireRackAntiAffinity: false}}
  rack3: {die: {enabled: true, enableL3AntiAffinity: true, requireRackL3AntiAffinity: false}}
  rack4: {socket: {enabled: true, enableNumaAntiAffinity: false}}
  rack5: {socket: {requireRackAffinity: true}}
"""


def rules_with(config: str, labels: dict[str, str], namespace: str = "default") -> PlacementRules:
    owner = container(labels=labels, namespace=namespace)
    rules, problems = placement_rules(owner, read_config(config).config)
    assert problems == ()
    return rules


def texts(rules: PlacementRules) -> list[str]:
    found = [rule.term.text for rule in rules.required]
    return found + [f"{rule.weight} {rule.term.text}" for rule in rules.preferred]


OTHERS = "pinfold.dev/rack exists, pinfold.dev/rack not in ({})"


@pytest.mark.parametrize(
    ("rack", "rules"),
    [
        (
            "rack1",
            [
                f"anti-affinity at socket to {OTHERS.format('rack1')} (racks.rack1.socket)",
                "anti-affinity at numa to pinfold.dev/rack=rack1, another pod.uid"
                " (racks.rack1.socket, numa inside)",
                "100 preferred affinity at socket to pinfold.dev/rack=rack1 (racks.rack1.socket)",
                "100 preferred affinity at numa to everything of its own pod"
                " (racks.rack1.socket, numa inside, each pod together)",
            ],
        ),
        (
            "rack2",
            [
                "affinity at numa to pinfold.dev/rack=rack2 (racks.rack2.numa)",
                f"-100 preferred anti-affinity at numa to {OTHERS.format('rack2')}"
                " (racks.rack2.numa)",
            ],
        ),
        (
            "rack3",
            [
                f"anti-affinity at die to {OTHERS.format('rack3')} (racks.rack3.die)",
                "100 preferred affinity at die to pinfold.dev/rack=rack3 (racks.rack3.die)",
                "-100 preferred anti-affinity at l3 to pinfold.dev/rack=rack3, another pod.uid"
                " (racks.rack3.die, l3 inside)",
                "100 preferred affinity at l3 to everything of its own pod"
                " (racks.rack3.die, l3 inside, each pod together)",
            ],
        ),
        (
            "rack4",
            [
                f"anti-affinity at socket to {OTHERS.format('rack4')} (racks.rack4.socket)",
                "100 preferred affinity at socket to pinfold.dev/rack=rack4 (racks.rack4.socket)",
            ],
        ),
        ("rack5", []),
    ],
)
def test_a_rack_comes_to_terms(rack: str, rules: list[str]) -> None:
    assert texts(rules_with(RACKS, {"pinfold.dev/rack": rack})) == rules


def test_pods_of_a_rack_keep_apart_from_other_pods_and_not_within_themselves() -> None:
    owner = container(labels={"pinfold.dev/rack": "rack1"})
    _, inside = rules_with(RACKS, {"pinfold.dev/rack": "rack1"}).required
    sibling = container("sidecar", labels={"pinfold.dev/rack": "rack1"})
    other = container(pod="other", labels={"pinfold.dev/rack": "rack1"})
    assert not inside.term.matches(owner, sibling)
    assert inside.term.matches(owner, other)


def test_a_rack_that_nobody_configured_is_told() -> None:
    owner = container(labels={"pinfold.dev/rack": "rack11"})
    rules, (problem,) = placement_rules(owner, read_config(RACKS).config)
    assert not rules
    assert problem.is_advice
    assert "has no rack 'rack11' — did you mean 'rack1'?" in str(problem)


@pytest.mark.parametrize(
    ("config", "rules"),
    [
        (
            "",
            [
                "anti-affinity at numa to the same pinfold.dev/resource-set, another pod.uid"
                " (antiAffinity.numa)",
                "100 preferred affinity at numa to everything of its own pod"
                " (antiAffinity.numa, each pod together)",
            ],
        ),
        (
            "antiAffinity: {numa: {enabled: false}, socket: {enabled: true, required: false}}",
            [
                "-100 preferred anti-affinity at socket to the same pinfold.dev/resource-set,"
                " another pod.uid (antiAffinity.socket)",
                "100 preferred affinity at socket to everything of its own pod"
                " (antiAffinity.socket, each pod together)",
            ],
        ),
        ("antiAffinity: {numa: {enabled: false}}", []),
    ],
)
def test_replicas_of_a_resource_set_keep_apart(config: str, rules: list[str]) -> None:
    found = rules_with(config, {"pinfold.dev/resource-set": "db"})
    assert texts(found) == rules
    assert not rules_with(config, {"app": "db"})


def test_a_replica_is_of_its_own_set_alone() -> None:
    (rule,) = rules_with("", {"pinfold.dev/resource-set": "db"}).required
    owner = container(labels={"pinfold.dev/resource-set": "db"})
    for value, is_meant in (("db", True), ("web", False)):
        other = container(pod="other", labels={"pinfold.dev/resource-set": value})
        assert rule.term.matches(owner, other) is is_meant


PROFILES = """\
profiles:
- name: batch
  namespaces: ["batch-*"]
  labelSelector: {matchExpressions: [{key: kind, operator: NotIn, values: [boss]}]}
  addedAffinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {matchLabels: {app: database}}, topologyKey: l3, namespaceSelector: {}}
    poolAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: cpus, operator: gt, values: ["7"]}]}]
"""


@pytest.mark.parametrize(
    ("namespace", "labels", "has_rules"),
    [
        ("batch-1", {}, True),
        ("batch-1", {"kind": "worker"}, True),
        ("batch-1", {"kind": "boss"}, False),
        ("default", {}, False),
    ],
)
def test_a_profile_is_for_namespaces_and_labels(
    namespace: str, labels: dict[str, str], *, has_rules: bool
) -> None:
    rules = rules_with(PROFILES, labels, namespace)
    assert len(rules.required) == len(rules.pool_required) == int(has_rules)


def test_rules_of_a_profile_are_added_to_the_pods_own() -> None:
    owner = container(
        namespace="batch-1",
        annotations={
            "affinity.pinfold.dev/pod": affinity("topologyKey: numa, labelSelector: {}"),
            "pool-selector.pinfold.dev/pod": "socket=1",
        },
    )
    rules, _ = placement_rules(owner, read_config(PROFILES).config)
    assert [rule.is_anti for rule in rules.required] == [True, False]
    assert [one.text for one in rules.pool_required] == [
        "a pool with cpus > 7 (profile batch)",
        "a pool with socket=1 (pool-selector.pinfold.dev/pod)",
    ]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("racks: {a: {sokcet: {}}}", "p.yaml:1:13: racks.a.sokcet: unknown field — did you mean"),
        ("racks: {a: {numa: {enable: true}}}", "unknown field"),
        ("profiles: [{namespaces: [a]}]", "field 'name' is missing"),
        ("profiles: [{name: a}, {name: a}]", "'a' is the name of two profiles"),
        ("profiles: [{name: a, namespaces: ['[']}]", "'[' is no pattern"),
        ("hardAffinityWeight: 101", "101 is out of range"),
        ("kubeCompat: strictly", "did you mean 'strict'?"),
        ("duringExecution: {gracePeriod: soon}", "duringExecution.gracePeriod: failed to parse"),
        ("duringExecution: {movesPerMinute: 601}", "601 is out of range"),
        ("duringExecution: {movesPerMinute: -1}", "-1 is out of range"),
        ("rebalance: {movesPerHour: 601}", "601 is out of range"),
        ("antiAffinityLimits: {maxBlockedCPUs: lots}", "'lots' is neither a number of cpus nor"),
        ("antiAffinityLimits: {maxBlockedCPUs: 101%}", "more than all cpus"),
        (
            "antiAffinityLimits: {namespaces: {a: {levels: [nmua]}}}",
            "antiAffinityLimits.namespaces.a.levels[0]: unknown level 'nmua' — did you mean",
        ),
        ("poolLabels: [{pool: a, labels: {numa: a}}]", "'numa' is a label that the machine gives"),
    ],
)
def test_a_fault_of_the_configuration_is_told_with_its_place(config: str, what: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_config(config, "p.yaml")
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("term", "what"),
    [
        ("topologyKey: nmua, labelSelector: {}", "unknown topologyKey 'nmua'"),
        ("topologyKey: numa", "without labelSelector it is about nobody"),
        ("topologyKey: numa, labelSelector: {}, scope: all", "'all' is not accepted"),
        (
            "topologyKey: numa, labelSelector: {matchExpressions: [{key: a, operator: In}]}",
            "In without values",
        ),
        (
            "topologyKey: numa, labelSelector: {matchExpressions: [{key: a, operator: Gt}]}",
            "'Gt' is not accepted",
        ),
        (
            "topologyKey: numa, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [a]",
            "'a' is also in labelSelector or mismatchLabelKeys",
        ),
        (
            "topologyKey: numa, labelSelector: {matchLabels: {app: b}}, scope: pod",
            "the label 'app' is the same in a pod's containers",
        ),
        (
            "topologyKey: numa, labelSelector: {}, scope: pod, namespaces: [a]",
            "stands beside 'scope: pod'",
        ),
        (
            f"topologyKey: numa, labelSelector: {{matchLabels: {{a: {'b' * 513}}}}}",
            "513 characters",
        ),
        (
            f"topologyKey: numa, labelSelector: {{}}, namespaces: [{', '.join('a' * 257)}]",
            "has 257 items — write at most 256",
        ),
    ],
)
def test_a_term_of_a_profile_is_as_strict_as_one_of_a_pod(term: str, what: str) -> None:
    text = "profiles: [{name: a, addedAffinity: {podAffinity: {" + (
        f"requiredDuringSchedulingIgnoredDuringExecution: [{{{term}}}]}}}}}}]"
    )
    with pytest.raises(ConfigError) as error:
        read_config(text, "p.yaml")
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        (["topologyKey: numa, labelSelector: {}"] * 65, "has 65 rules — write at most 16"),
        (
            ["topologyKey: l3, labelSelector: {}, matchLabelKeys: [a, b, c, d, e, f, g, h, i]"]
            * 57,
            "has 513 labels, expressions and label keys — write at most 512",
        ),
    ],
)
def test_a_profile_holds_no_more_than_an_annotation(terms: list[str], what: str) -> None:
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    items = ", ".join(f"{{{term}}}" for term in terms)
    text = f"profiles: [{{name: a, addedAffinity: {{podAffinity: {{{field}: [{items}]}}}}}}]"
    with pytest.raises(ConfigError) as error:
        read_config(text, "p.yaml")
    assert what in str(error.value)


def test_what_the_check_let_pass_is_told_and_left_out() -> None:
    config = read_config("racks: {? " + "r" * 513 + " : {numa: {enabled: true}}}").config
    owner = container(labels={"pinfold.dev/rack": "r" * 513})
    rules, problems = placement_rules(owner, config)
    assert not rules.required
    assert problems
    assert all("513 characters" in one.what for one in problems)


def test_what_lint_shows_reads_back_as_the_same_rules() -> None:
    configured = configured_rules(read_config(RACKS + PROFILES).config)
    documents = expansion(configured).removeprefix("---\n").split("\n---\n")
    assert len(documents) == len(configured.added)
    for document, added in zip(documents, configured.added, strict=True):
        head, _, _ = document.partition("\n")
        assert head.startswith(f"# {added.name}, for ")
        written = parse_affinity_text(document, added.name)
        assert written.problems == ()
        assert yaml.safe_load(document) == added.written
        assert len(written.required) == len(added.rules.required)
        for one, other in zip(written.required, added.rules.required, strict=True):
            assert one.rule.term.selector == other.rule.term.selector
            assert one.rule.term.level is other.rule.term.level
            assert one.label_keys == other.label_keys


def test_a_pods_expansion_has_its_own_rules_alone() -> None:
    configured = configured_rules(read_config(RACKS).config)
    pod = container(labels={"pinfold.dev/rack": "rack4"}).pod
    text = pod_expansion(configured, pod)
    assert text.startswith("---\n# racks.rack4.socket, for default/pod\npodAffinity:\n")
    assert "rack1" not in text
    assert pod_expansion(configured, container().pod) == ""


def test_limits_of_a_namespace_are_the_first_that_match() -> None:
    limits = read_config(
        "antiAffinityLimits: {namespaces: {team-a: {levels: [l3]}, 'team-*': {maxBlockedCPUs: 4}}}"
    ).config.anti_affinity_limits
    assert {level.value for level in limits.allowed_levels("team-a")} == {"l3"}
    assert len(limits.allowed_levels("team-b")) == len(limits.allowed_levels("default")) == 6
    assert limits.max_blocked("team-a", 64) == 32
    assert limits.max_blocked("team-b", 64) == 4
    assert Config().anti_affinity_limits.max_blocked("default", 15) == 7


def test_a_level_that_limits_forbid_is_preferred_against_other_namespaces() -> None:
    config = read_config("antiAffinityLimits: {namespaces: {'*': {levels: [core]}}}").config
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    others = [-100]
    for scope, is_about_own, preferred in (
        (", namespaceSelector: {}", True, others),
        (", namespaces: [team, elsewhere]", True, others),
        (", namespaces: [elsewhere]", False, others),
        (", namespaces: [team]", True, []),
        ("", True, []),
    ):
        term = f"{{topologyKey: numa, labelSelector: {{}}{scope}}}"
        text = f"podAntiAffinity: {{{field}: [{term}]}}"
        owner = container(annotations={"affinity.pinfold.dev/pod": text}, namespace="team")
        rules, problems = placement_rules(owner, config)
        scopes = [rule.term.namespaces for rule in rules.required]
        assert [one.holds("team", NO_NAMESPACE_LABELS, "team") for one in scopes] == (
            [True] if is_about_own else []
        )
        assert not any(one.holds("elsewhere", NO_NAMESPACE_LABELS, "team") for one in scopes)
        assert [rule.weight for rule in rules.preferred] == preferred
        for rule in rules.preferred:
            assert rule.term.namespaces.holds("elsewhere", NO_NAMESPACE_LABELS, "team")
            assert not rule.term.namespaces.holds("team", NO_NAMESPACE_LABELS, "team")
        assert len(problems) == len(preferred)

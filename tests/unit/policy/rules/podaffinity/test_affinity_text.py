from collections.abc import Mapping

import pytest

from pinfold.policy.configuration.affinity_fields import REQUIREMENTS_MAX, RULES_MAX
from pinfold.policy.configuration.config import Config, OnUnsatisfiable
from pinfold.policy.rules.podaffinity.affinity_text import (
    MAX_FAULTS,
)
from pinfold.policy.rules.podaffinity.rule_set import NO_PLACEMENT_RULES, PlacementRules
from pinfold.policy.rules.podaffinity.rule_text import placement_rules
from pinfold.topology.model.machine import Level
from tests.unit.policy.engine.ruled_pods import PREFERRED

from .rule_cases import affinity, container, rules_of, term_of

EXAMPLE = """\
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector: {matchLabels: {app: cache}}
    topologyKey: numa
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 50
    podAffinityTerm: {labelSelector: {matchLabels: {app: web}}, topologyKey: socket}
podAntiAffinity:
  requiredDuringSchedulingRequiredDuringExecution:
  - labelSelector: {matchLabels: {app: noisy}}
    topologyKey: topology.pinfold.dev/l3
    namespaceSelector: {}
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 20
    podAffinityTerm:
      labelSelector: {matchLabels: {container.name: logger}}
      topologyKey: core
      scope: pod
poolAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 7
    preference: {matchExpressions: [{key: cpus, operator: Lt, values: ["16"]}]}
topologySpread:
- {maxSkew: 2, topologyKey: die, labelSelector: {}, minDomains: 3}
- {maxSkew: 1, topologyKey: numa, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}
"""


MEANT = "labelSelector: {}, topologyKey: numa"


def test_an_annotation_is_read_into_rules() -> None:
    _, rules, problems = rules_of(EXAMPLE)
    assert problems == ()
    near, apart = rules.required
    assert (near.is_anti, near.term.level, near.is_lasting) == (False, Level.NUMA, False)
    assert (apart.is_anti, apart.term.level, apart.is_lasting) == (True, Level.L3, True)
    assert [(one.weight, one.term.level) for one in rules.preferred] == [
        (50, Level.SOCKET),
        (-20, Level.CORE),
    ]
    assert [one.weight for one in rules.pool_preferred] == [7]
    assert [(one.max_skew, one.is_required, one.min_domains) for one in rules.spread] == [
        (2, True, 3),
        (1, False, 1),
    ]


def test_rules_say_in_words_what_they_are_and_where_they_stand() -> None:
    _, rules, _ = rules_of(EXAMPLE)
    terms = [one.term for one in rules.required] + [one.term for one in rules.preferred]
    assert [term.text for term in terms] == [
        "affinity at numa to app=cache (affinity.pinfold.dev/pod:3)",
        "anti-affinity at l3 to app=noisy in all namespaces (affinity.pinfold.dev/pod:10)",
        "preferred affinity at socket to app=web (affinity.pinfold.dev/pod:6)",
        "preferred anti-affinity at core to container.name=logger of its own pod"
        " (affinity.pinfold.dev/pod:14)",
    ]
    assert [one.text for one in rules.spread] == [
        "spread over die, 3 of them at least, at most 2 apart: everything"
        " (affinity.pinfold.dev/pod:24)",
        "spread over numa, at most 1 apart: everything (affinity.pinfold.dev/pod:25)",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("podAffinty: {}", "1:1: unknown field 'podAffinty' in an affinity — did you mean 'podA"),
        ("nodeAffinity: {}", "did you mean 'poolAffinity'?"),
        ("affinity: {podAffinity: {}}", "unknown field 'affinity' in an affinity — leave the word"),
        ("nodeSelector: {}", "write the annotation 'pool-selector.pinfold.dev/pod'"),
        ("nodeName: x", "write the annotation 'pool-name.pinfold.dev/pod'"),
        ("- a", "not a mapping of kinds of rules"),
        ("podAffinity: []", "'podAffinity' is not a mapping"),
        ("podAffinity: {required: []}", "unknown field 'required' in 'podAffinity'"),
        (affinity("topologyKey: numa").replace("[", "").replace("]", ""), "is not a list"),
        (affinity("labelSelector: {}"), "a term without topologyKey"),
        (affinity('labelSelector: {}, topologyKey: ""'), "an empty topologyKey"),
        (
            affinity("labelSelector: {}, topologyKey: numa, weight: 5"),
            "unknown field 'weight' in a term — leave it out: only preferred rules have one",
        ),
        (affinity("podAffinityTerm: {}"), "'podAffinityTerm' in a term — leave the word out"),
        (
            f"podAffinity: {{{PREFERRED}: [{{weight: 5, topologyKey: numa}}]}}",
            "unknown field 'topologyKey' in a preferred term — write it inside podAffinityTerm",
        ),
        (
            f"podAffinity: {{{PREFERRED}: [{{weight: 5, scope: pod}}]}}",
            "unknown field 'scope' in a preferred term — write it inside podAffinityTerm",
        ),
        (
            f"poolAffinity: {{{PREFERRED}: [{{weight: 5, matchExpressions: []}}]}}",
            "unknown field 'matchExpressions' in a preferred term — write it inside preference",
        ),
        (affinity("labelSelector: {}, topologyKey: nma"), "did you mean 'numa'?"),
        (affinity("labelSelector: {}, topologyKey: package"), "did you mean 'socket'?"),
        (
            affinity("labelSelector: {}, topologyKey: kubernetes.io/hostname"),
            "'kubernetes.io/hostname' is no level inside a node",
        ),
        (affinity("labelSelector: {}, topologyKey: numa, scope: all"), "unknown scope 'all'"),
        (
            affinity("labelSelector: {matchLabels: {app: a}}, topologyKey: numa, scope: pod"),
            "the label 'app' is the same in a pod's containers",
        ),
        (
            affinity("labelSelector: {}, topologyKey: numa, scope: pod, namespaces: [a]"),
            "'namespaces' beside 'scope: pod'",
        ),
        (affinity("labelSelector: [], topologyKey: numa"), "'labelSelector' is not a mapping"),
        (
            affinity("labelSelector: {matchExpressions: [{key: a}]}, topologyKey: numa"),
            "an expression without operator",
        ),
        (
            affinity(
                "labelSelector: {matchExpressions: [{key: a, operator: Equals}]}, topologyKey: die"
            ),
            "unknown operator 'Equals' — did you mean 'In'?",
        ),
        ("topologySpread: {}", "'topologySpread' is not a list"),
        ("topologySpread: [{topologyKey: numa, labelSelector: {}}]", "without maxSkew"),
        (
            "topologySpread: [{maxSkew: 0, topologyKey: numa, labelSelector: {}}]",
            "'maxSkew' is no whole number from 1 on",
        ),
        (
            "topologySpread: [{maxSkew: 1, topologyKey: numa, whenUnsatisfiable: Maybe}]",
            "unknown whenUnsatisfiable 'Maybe'",
        ),
        (
            "topologySpread: [{maxSkew: 1, topologyKey: numa, minDomains: 2,"
            " whenUnsatisfiable: ScheduleAnyway}]",
            "'minDomains' is for DoNotSchedule alone",
        ),
        (
            "poolAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
            " {nodeSelectorTerms: []}}",
            "no nodeSelectorTerms",
        ),
        ("a: b: c", "not valid YAML"),
    ],
)
def test_what_cannot_be_read_is_told_and_left_out(text: str, what: str) -> None:
    _, rules, problems = rules_of(text)
    assert not rules
    (problem,) = problems
    assert problem.startswith("affinity.pinfold.dev/pod of default/owner:1:")
    assert what in problem


def test_the_others_count_where_one_rule_is_wrong() -> None:
    _, rules, problems = rules_of(
        EXAMPLE.replace("{matchLabels: {app: noisy}}", "{matchLabel: {app: noisy}}")
    )
    assert len(problems) == 1
    assert [one.is_anti for one in rules.required] == [False]
    assert len(rules.preferred) == 2


def test_an_unknown_field_of_a_section_leaves_the_rest_of_it() -> None:
    _, rules, (problem,) = rules_of(EXAMPLE.replace("preferredDuringS", "preferedDuringS", 1))
    assert "did you mean 'preferredDuringSchedulingIgnoredDuringExecution'?" in problem
    assert len(rules.required) == 2
    assert [one.weight for one in rules.preferred] == [-20]


@pytest.mark.parametrize(
    ("written", "counts"), [("0", 1), ("-5", 1), ("101", 100), ("9" * 40, 100)]
)
def test_a_weight_outside_the_range_is_moved_into_it_with_a_warning(
    written: str, counts: int
) -> None:
    _, rules, (problem,) = rules_of(EXAMPLE.replace("weight: 50", f"weight: {written}"))
    assert rules.preferred[0].weight == counts
    assert f"is outside the range, {counts} is used" in problem


@pytest.mark.parametrize("written", ["many", '"50"', "5.0", "[]", "null"])
def test_a_weight_that_is_no_number_leaves_its_rule_out(written: str) -> None:
    _, rules, (problem,) = rules_of(EXAMPLE.replace("weight: 50", f"weight: {written}"))
    assert len(rules.preferred) == 1
    assert "weight" in problem


def test_after_so_many_faults_the_rest_is_left_out() -> None:
    term = "{topologyKey: nma}"
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    text = f"podAffinity: {{{field}: [{', '.join([term] * 40)}]}}"
    _, _, problems = rules_of(text)
    assert len(problems) == MAX_FAULTS + 1
    assert "the rest is left out" in problems[-1]


def test_of_too_many_rules_the_first_count() -> None:
    term = "{topologyKey: numa, labelSelector: {}}"
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    text = f"podAffinity: {{{field}: [{', '.join([term] * (RULES_MAX + 9))}]}}"
    _, rules, (problem,) = rules_of(text)
    assert len(rules.required) == RULES_MAX
    assert f"more than {RULES_MAX} rules" in problem


def test_of_too_many_requirements_the_rules_that_fit_count() -> None:
    many = ", ".join(f"k{one}: v" for one in range(200))
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    term = f"{{topologyKey: numa, labelSelector: {{matchLabels: {{{many}}}}}}}"
    small = "{topologyKey: numa, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev]}"
    _, rules, (problem,) = rules_of(f"podAffinity: {{{field}: [{term}, {term}, {term}, {small}]}}")
    assert [str(rule.term.selector)[:6] for rule in rules.required] == ["k0=v, "] * 2 + ["app=we"]
    assert f"more than {REQUIREMENTS_MAX} requirements" in problem


@pytest.mark.parametrize(
    ("selector", "fix"),
    [
        ("matchLabels: {container.nam: a}", "did you mean 'container.name'?"),
        ("matchLabels: {pod.qos: guaranteed}", "did you mean 'Guaranteed'?"),
        (
            "matchExpressions: [{key: pod.qos, operator: NotIn, values: [Burstable, None]}]",
            "one of Guaranteed, Burstable, BestEffort",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["a term", "a spread rule"])
def test_a_misspelt_pseudo_label_is_told(kind: str, selector: str, fix: str) -> None:
    text = f"topologyKey: numa, labelSelector: {{{selector}}}"
    spread = f"topologySpread: [{{maxSkew: 1, {text}}}]"
    _, rules, (problem,) = rules_of(affinity(text) if kind == "a term" else spread)
    assert rules
    assert fix in problem


def test_classes_of_pods_are_no_slips() -> None:
    values = "values: [Guaranteed, Burstable, BestEffort]"
    selector = f"matchExpressions: [{{key: pod.qos, operator: In, {values}}}]"
    _, _, problems = rules_of(affinity(f"topologyKey: numa, labelSelector: {{{selector}}}"))
    assert problems == ()


def annotated(annotations: Mapping[str, str]) -> tuple[PlacementRules, tuple[str, ...]]:
    rules, problems = placement_rules(container(annotations=annotations), Config())
    return rules, tuple(map(str, problems))


def test_the_containers_own_annotation_replaces_the_pods() -> None:
    other = affinity("topologyKey: socket, labelSelector: {}")
    texts = {"affinity.pinfold.dev/pod": EXAMPLE, "affinity.pinfold.dev/container.main": other}
    rules, problems = annotated(texts)
    assert [one.term.level for one in rules.required] == [Level.SOCKET]
    assert problems == ()
    rules, _ = annotated({**texts, "affinity.pinfold.dev/container.main": "podAffinity: null"})
    assert rules is NO_PLACEMENT_RULES


def test_a_container_without_annotations_has_no_rules_and_no_problems() -> None:
    assert annotated({}) == (NO_PLACEMENT_RULES, ())


def test_pool_name_pool_selector_and_the_fate_are_read() -> None:
    rules, problems = annotated(
        {
            "pool-name.pinfold.dev/container.main": " NUMA node #3 ",
            "pool-selector.pinfold.dev/pod": "socket=1, core-kind = performance",
            "on-unsatisfiable.pinfold.dev/pod": "fail",
        }
    )
    assert problems == ()
    assert rules.pool_name == "NUMA node #3"
    assert rules.on_unsatisfiable is OnUnsatisfiable.FAIL
    (requirement,) = rules.pool_required
    assert requirement.holds({"socket": "1", "core-kind": "performance"})
    assert not requirement.holds({"socket": "1"})


@pytest.mark.parametrize("fate", ["Fail", "FAIL", " fail "])
def test_the_fate_is_read_in_whatever_letters_as_in_the_configuration(fate: str) -> None:
    texts = {"pool-name.pinfold.dev/pod": "root", "on-unsatisfiable.pinfold.dev/pod": fate}
    rules, problems = annotated(texts)
    assert problems == ()
    assert rules.on_unsatisfiable is OnUnsatisfiable.FAIL


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("pool-selector", "socket", "'socket' is not label=value"),
        ("pool-selector", "", "'' is not label=value"),
        ("pool-selector", "socket==1", "'socket==1' is not label=value"),
        ("pool-selector", "socket!=1", "'=' alone; write NotIn in a poolAffinity"),
        ("pool-selector", "socket=1,socket=2", "'socket' is given twice"),
        ("pool-name", " ", "no name"),
        ("on-unsatisfiable", "degrad", "did you mean 'degrade'?"),
    ],
)
def test_a_setting_that_cannot_be_read_is_told_and_left_out(
    key: str, value: str, what: str
) -> None:
    rules, (problem,) = annotated({f"{key}.pinfold.dev/container.main": value})
    assert not rules
    assert rules.on_unsatisfiable is OnUnsatisfiable.DEGRADE
    assert problem.startswith(f"{key}.pinfold.dev/container.main of default/pod/main: ")
    assert what in problem


def test_levels_are_named_shortly_or_in_full() -> None:
    for level in (Level.SOCKET, Level.DIE, Level.NUMA, Level.L3, Level.CLUSTER, Level.CORE):
        for prefix in ("", "topology.pinfold.dev/"):
            text = affinity(f"topologyKey: {prefix}{level.value}, labelSelector: {{}}")
            _, rules, problems = rules_of(text)
            assert [one.term.level for one in rules.required] == [level]
            assert problems == ()


def test_patterns_where_names_of_namespaces_belong_are_told() -> None:
    for names, told in (("[shop]", ""), ("[shop, 'team-*']", "'team-*'"), ("['a?', '*']", "'*'")):
        _, rules, problems = rules_of(affinity(f"{MEANT}, namespaces: {names}"))
        assert len(rules.required) == 1
        assert len(problems) == bool(told)
        for problem in problems:
            assert f"{told} is a pattern, and no namespace has such a name" in problem


def test_scope_pod_is_about_siblings() -> None:
    owner, term = term_of("labelSelector: {matchLabels: {container.name: log}}, scope: pod")
    assert term.matches(owner, container("log", pod="owner"))
    assert not term.matches(owner, container("log"))

"""Placement rules: no text does harm, and a term means what a plain reading of its YAML says."""

from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.rules.podaffinity.affinity_text import (
    AFFINITY_FIELDS,
    PREFERRED_FIELD,
    REQUIRED_FIELDS,
    parse_affinity_text,
)
from pinfold.policy.rules.podaffinity.configured_rules import configured_rules
from pinfold.policy.rules.podaffinity.rule_text import placement_rules
from pinfold.policy.rules.podaffinity.term_text import SPREAD_FIELDS
from pinfold.policy.rules.written_fields import TERM_FIELDS
from pinfold.policy.text.errors import ConfigError

Plain = Mapping[str, Any]

KEYS = st.sampled_from(["app", "tier", "rev", "container.name", "pod.qos", "pod.uid"])
VALUES = st.sampled_from(["a", "b", "main", "log", "uid-p", "BestEffort", "Guaranteed"])
NAMESPACES = st.sampled_from(["default", "prod", "gold", "stranger"])
NAMESPACE_LABELS = {"gold": {"tier": "gold"}, "prod": {"tier": "iron", "own": "x"}}
LABELS = st.dictionaries(st.sampled_from(["app", "tier", "rev"]), VALUES, max_size=3)
REQUIRED = next(iter(REQUIRED_FIELDS))


def expressions(
    keys: st.SearchStrategy[str], values: st.SearchStrategy[str]
) -> st.SearchStrategy[Plain]:
    some = st.lists(values, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"key": keys, "operator": st.sampled_from(["In", "NotIn"]), "values": some}
        ),
        st.fixed_dictionaries(
            {"key": keys, "operator": st.sampled_from(["Exists", "DoesNotExist"])}
        ),
    )


def selectors(
    keys: st.SearchStrategy[str], values: st.SearchStrategy[str]
) -> st.SearchStrategy[Plain]:
    fields: dict[str, st.SearchStrategy[Any]] = {
        "matchLabels": st.dictionaries(keys, values, max_size=2),
        "matchExpressions": st.lists(expressions(keys, values), max_size=2),
    }
    return st.fixed_dictionaries({}, optional=fields)


TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["numa", "topology.pinfold.dev/l3"])},
    optional={
        "labelSelector": st.none() | selectors(KEYS, VALUES),
        "namespaces": st.lists(NAMESPACES, max_size=2),
        "namespaceSelector": st.none()
        | selectors(
            st.sampled_from(["tier", "own", "kubernetes.io/metadata.name"]),
            st.sampled_from(["gold", "iron", "x", "default", "stranger"]),
        ),
    },
)


@st.composite
def containers(draw: st.DrawFn, annotations: Mapping[str, str] | None = None) -> Container:
    name = draw(st.sampled_from(["main", "log"]))
    pod = draw(st.sampled_from(["p", "q"]))
    return Container(
        id=ContainerId(f"{pod}-{name}"),
        name=name,
        pod=Pod(
            id=PodId(pod),
            uid=f"uid-{pod}",
            name=pod,
            namespace=draw(NAMESPACES),
            labels=draw(LABELS),
            annotations=annotations or {},
            qos=draw(st.sampled_from([QosClass.BEST_EFFORT, QosClass.GUARANTEED])),
        ),
    )


def holds(expression: Plain, labels: Mapping[str, str]) -> bool:
    has = expression["key"] in labels
    match expression["operator"]:
        case "Exists":
            return has
        case "DoesNotExist":
            return not has
        case "In":
            return has and labels[expression["key"]] in expression["values"]
        case _:
            return not has or labels[expression["key"]] not in expression["values"]


def selects(selector: Plain, labels: Mapping[str, str]) -> bool:
    return all(
        labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()
    ) and all(holds(one, labels) for one in selector.get("matchExpressions", []))


def is_known(selector: Plain, namespace: str) -> bool:
    keys = [*selector.get("matchLabels", {})]
    keys += [one["key"] for one in selector.get("matchExpressions", [])]
    return namespace in NAMESPACE_LABELS or {*keys} <= {"kubernetes.io/metadata.name"}


def is_near(term: Plain, namespace: str, own: str) -> bool:
    names, selector = term.get("namespaces", []), term.get("namespaceSelector")
    if not names and selector is None:
        return namespace == own
    labels = {
        **NAMESPACE_LABELS.get(namespace, {}),
        "kubernetes.io/metadata.name": namespace,
    }
    is_selected = (
        selector is not None and is_known(selector, namespace) and selects(selector, labels)
    )
    return namespace in names or is_selected


def matches(term: Plain, owner: Container, other: Container) -> bool:
    """A plain reading of Kubernetes' words."""
    selector = term.get("labelSelector")
    if selector is None or (owner.pod.uid, owner.name) == (other.pod.uid, other.name):
        return False
    labels = {
        **other.pod.labels,
        "container.name": other.name,
        "pod.name": other.pod.name,
        "pod.qos": other.pod.qos.value,
        "pod.uid": other.pod.uid,
    }
    return is_near(term, other.pod.namespace, owner.pod.namespace) and selects(selector, labels)


@settings(deadline=None)
@given(TERMS, st.data())
def test_a_term_means_what_a_plain_reading_says(term: Plain, data: st.DataObject) -> None:
    text = yaml.safe_dump({"podAntiAffinity": {REQUIRED: [term]}})
    owner = data.draw(containers({"affinity.pinfold.dev/pod": text}))
    rules, _ = placement_rules(owner, config_from_values({"namespaceLabels": NAMESPACE_LABELS}))
    (rule,) = rules.required
    for other in data.draw(st.lists(containers(), min_size=1, max_size=6)):
        assert rule.term.matches(owner, other) is matches(term, owner, other)


WORDS = st.sampled_from(
    [
        *(*AFFINITY_FIELDS, *REQUIRED_FIELDS, PREFERRED_FIELD, *TERM_FIELDS, *SPREAD_FIELDS),
        *("weight", "podAffinityTerm", "preference", "nodeSelectorTerms", "matchExpressions"),
        *("matchLabels", "key", "operator", "values", "In", "Gt", "numa", "pod", "1", "-1"),
    ]
)
ODD = st.recursive(
    WORDS | st.integers() | st.none() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=30,
)


@settings(deadline=None)
@given(st.text(max_size=80) | ODD.map(lambda value: yaml.safe_dump(value, allow_unicode=True)))
def test_no_text_raises_and_every_problem_names_its_annotation(text: str) -> None:
    for key in ("affinity", "pool-selector", "pool-name", "on-unsatisfiable"):
        annotation = f"{key}.pinfold.dev/container.main"
        pod = Pod(id=PodId("p"), name="p", annotations={annotation: text})
        owner = Container(id=ContainerId("c"), name="main", pod=pod)
        _, problems = placement_rules(owner, Config())
        for problem in problems:
            assert problem.where == f"{annotation} of default/p/main"
            assert problem.container == "main"
            assert "\n" not in problem.what


SKELETONS = st.sampled_from(AFFINITY_FIELDS).flatmap(
    lambda section: st.fixed_dictionaries(
        {section: st.dictionaries(st.sampled_from([*REQUIRED_FIELDS, PREFERRED_FIELD]), ODD)}
    )
)


@settings(deadline=None)
@given(SKELETONS, TERMS)
def test_the_good_rule_counts_whatever_stands_beside_it(odd: Plain, term: Plain) -> None:
    good = {"podAffinity": {PREFERRED_FIELD: [{"weight": 7, "podAffinityTerm": term}]}}
    text = yaml.safe_dump({**odd, **good}, sort_keys=False)
    pod = Pod(id=PodId("p"), name="p", annotations={"affinity.pinfold.dev/pod": text})
    owner = Container(id=ContainerId("c"), name="main", pod=pod)
    rules, _ = placement_rules(owner, Config())
    assert [rule.weight for rule in rules.preferred][-1:] == [7]


ODD_TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["numa", "nmua", "core", ""])},
    optional={
        "labelSelector": selectors(KEYS, VALUES),
        "namespaces": st.lists(NAMESPACES, max_size=2),
        "namespaceSelector": selectors(KEYS, VALUES),
        "matchLabelKeys": st.lists(KEYS, max_size=2, unique=True),
        "mismatchLabelKeys": st.lists(KEYS, max_size=2, unique=True),
        "scope": st.sampled_from(["pod", "all"]),
    },
)


@settings(deadline=None)
@given(ODD_TERMS, st.sampled_from(["podAffinity", "podAntiAffinity"]))
@example({"topologyKey": "numa", "scope": "pod", "mismatchLabelKeys": []}, "podAffinity")
@example(
    {"topologyKey": "numa", "labelSelector": {"matchLabels": {"pod.qos": "guaranteed"}}},
    "podAffinity",
)
def test_a_profile_may_say_what_an_annotation_may(term: Plain, section: str) -> None:
    added = {section: {REQUIRED: [term]}}
    written = parse_affinity_text(yaml.safe_dump(added, sort_keys=False), "text")
    try:
        config = config_from_values({"profiles": [{"name": "p", "addedAffinity": added}]})
    except ConfigError:
        # What an author is only advised of, an operator can mend at once.
        assert written.problems
        return
    assert written.problems == ()
    profile = configured_rules(config).added[0]
    assert profile.rules.problems == ()
    (one,), (other,) = profile.rules.required, written.required
    assert one.rule.term.selector == other.rule.term.selector
    assert one.rule.term.namespaces == other.rule.term.namespaces
    assert one.label_keys == other.label_keys

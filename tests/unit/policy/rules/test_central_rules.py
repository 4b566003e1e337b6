"""Annotations by central rule: whom a rule is for, who wins, and what is said of faults."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.inquiry.alternatives import find_alternatives
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.rules.central_rules import CentralRules
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec

SPREAD = {"smt.pinfold.dev": "spread"}


def config(match: Mapping[str, object], annotations: Mapping[str, str] = SPREAD) -> Config:
    return config_from_values(
        {"rules": [{"name": "one", "match": dict(match), "annotations": dict(annotations)}]}
    )


def container(
    annotations: Mapping[str, str] | None = None, name: str = "server", **pod: object
) -> Container:
    fields: dict[str, object] = {
        "id": PodId("p"),
        "name": "llm-0",
        "namespace": "ml-1",
        "labels": {"app": "llm"},
        "qos": QosClass.GUARANTEED,
        "annotations": annotations or {},
    } | pod
    return Container(
        id=ContainerId("c"),
        name=name,
        pod=Pod(**fields),  # type: ignore[arg-type]  # fields by name
        labels={"image": "big"},
    )


def given(rules: Config, one: Container) -> dict[str, tuple[str, str]]:
    completed = CentralRules(rules).completed(one)
    assert all(completed.pod.annotations[each.key] == each.value for each in completed.given)
    return {each.key: (each.value, each.rule) for each in completed.given}


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        pytest.param({}, True, id="a rule without a selector is for everybody"),
        pytest.param({"namespaces": ["a", "ml-*"]}, True, id="one of the patterns fits"),
        pytest.param({"namespaces": ["a", "b"]}, False, id="none of the patterns fits"),
        pytest.param({"pods": ["llm-?"]}, True, id="the pod's name fits"),
        pytest.param({"containers": ["side*"]}, False, id="the container's name does not"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "llm"}}}, True, id="pod's labels"),
        pytest.param(
            {"containerLabelSelector": {"matchLabels": {"image": "big"}}}, True, id="its own labels"
        ),
        pytest.param({"qos": ["guaranteed"]}, True, id="the class in any case of letters"),
        pytest.param({"qos": ["Burstable", "BestEffort"]}, False, id="another class"),
        pytest.param(
            {"expression": {"key": "pod/labels/app", "operator": "In", "values": ["llm"]}},
            True,
            id="an expression that holds",
        ),
        pytest.param(
            {"namespaces": ["ml-1"], "pods": ["x"]}, False, id="all that is written must hold"
        ),
    ],
)
def test_a_rule_is_for(match: Mapping[str, object], is_matched: bool) -> None:
    expected = {"smt.pinfold.dev": ("spread", "one")} if is_matched else {}
    assert given(config(match), container()) == expected


@pytest.mark.parametrize(
    ("own", "counts"),
    [
        pytest.param({}, True, id="a pod that says nothing has it from the rule"),
        pytest.param({"smt.pinfold.dev/pod": "pack"}, False, id="the pod's own wins"),
        pytest.param({"smt.pinfold.dev": "pack"}, False, id="at the widest scope, too"),
        pytest.param({"smt.pinfold.dev/container.server": "any"}, False, id="for this container"),
        pytest.param({"smt.pinfold.dev/container.side": "any"}, True, id="for another container"),
        pytest.param({"smt.pinfold.dev/pod": "sprad"}, False, id="even where it is wrong"),
        pytest.param({"move.pinfold.dev/pod": "never"}, True, id="another key"),
    ],
)
def test_the_pods_own_annotation_wins(own: Mapping[str, str], counts: bool) -> None:
    narrow = {"smt.pinfold.dev/container.server": "spread"}
    assert bool(given(config({}, narrow), container(own))) == counts


def test_affinity_by_rule_counts_where_the_pod_has_none_in_any_domain() -> None:
    text = "server: [side]"
    rules = config({}, {"pinfold.dev/affinity": text})
    assert given(rules, container()) == {"pinfold.dev/affinity": (text, "one")}
    assert given(rules, container({"resource-policy.nri.io/affinity": "side: [server]"})) == {}


def test_of_several_rules_the_first_that_gives_a_key_counts() -> None:
    rules = config_from_values(
        {
            "rules": [
                {"name": "first", "annotations": {"smt.pinfold.dev/pod": "pack"}},
                {
                    "name": "second",
                    "annotations": {
                        "smt.pinfold.dev/container.server": "hide",
                        "move.pinfold.dev": "never",
                    },
                },
            ]
        }
    )
    assert given(rules, container()) == {
        "smt.pinfold.dev/pod": ("pack", "first"),
        "move.pinfold.dev": ("never", "second"),
    }


def test_other_rules_take_away_what_earlier_ones_gave() -> None:
    completed = CentralRules(config({})).completed(container({"move.pinfold.dev": "never"}))
    assert CentralRules(config({})).completed(completed) is completed
    bare = CentralRules(Config()).completed(completed)
    assert bare == container({"move.pinfold.dev": "never"})


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        (
            {"annotations": {"smt.pinfold.dev": "sprad"}},
            "rules[0].annotations: smt.pinfold.dev: unknown use of threads 'sprad'"
            " — did you mean 'spread'?",
        ),
        (
            {"annotations": {"smd.pinfold.dev": "pack"}},
            "rules[0].annotations: smd.pinfold.dev: unknown annotation 'smd'"
            " — did you mean 'smt.pinfold.dev/pod'?",
        ),
        (
            {"annotations": {"app": "x"}},
            "rules[0].annotations: 'app' is no annotation that a rule can give"
            " — see the guide's table",
        ),
        (
            {
                "annotations": SPREAD,
                "match": {"expression": {"key": "name", "operator": "Equal", "values": ["a"]}},
            },
            "rules[0].match.expression: unknown operator 'Equal' — did you mean 'Equals'?",
        ),
        (
            {"annotations": {"affinity.pinfold.dev": "podAfinity: {}"}},
            "rules[0].annotations: affinity.pinfold.dev:1:1: unknown field 'podAfinity'"
            " in an affinity — did you mean 'podAffinity'?",
        ),
    ],
)
def test_a_fault_of_a_rule_is_the_operators(rule: Mapping[str, object], complaint: str) -> None:
    faulty = config_from_values({"rules": [{"name": "one", **rule}]})
    with pytest.raises(ConfigError) as caught:
        CentralRules(faulty)
    assert str(caught.value) == complaint
    with pytest.raises(ConfigError):
        Engine(machine_from_spec("socket:1 core:4"), faulty)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ([{"name": "", "annotations": SPREAD}], "rules[0].name: is empty"),
        ([{"name": "a", "annotations": SPREAD}] * 2, "rules[1].name: 'a' is the name of two rules"),
        ([{"name": "a"}], "rules[0]: gives no annotations"),
        (
            [{"name": "a", "annotations": SPREAD, "match": {"pods": ["[a"]}}],
            "rules[0].match.pods[0]: '[a' is no pattern",
        ),
        ([{"name": "a", "match": {"pod": ["b"]}}], "did you mean 'pods'?"),
    ],
)
def test_a_faulty_selector_is_told(rules: list[object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"rules") as caught:
        config_from_values({"rules": rules})
    assert complaint in str(caught.value)


def test_a_complaint_about_a_given_annotation_names_the_rule() -> None:
    rules = config({}, {"cpu-class.resource-policy.nri.io": "fast"})
    engine = Engine(machine_from_spec("socket:1 core:4"), rules)
    (problem,) = engine.create(container()).problems
    assert problem.where == (
        "cpu-class.resource-policy.nri.io of ml-1/llm-0/server, given by rule 'one'"
    )


def test_a_running_container_gets_and_loses_annotations_with_the_configuration() -> None:
    engine = Engine(machine_from_spec("socket:1 core:4"), Config())
    engine.create(container({"move.pinfold.dev": "never"}))
    engine, _ = engine.reconfigured(config({}))
    (held,) = engine.containers.values()
    assert [one.rule for one in held.given] == ["one"]
    engine, _ = engine.reconfigured(Config())
    (held,) = engine.containers.values()
    assert (held.given, held.pod) == ((), container({"move.pinfold.dev": "never"}).pod)


def test_alternatives_without_rules_leave_out_given_ones() -> None:
    affinity = "server: [{scope: {operator: AlwaysTrue}, match: {operator: AlwaysTrue}}]"
    engine = Engine(
        machine_from_spec("socket:2 core:4"), config({}, {"pinfold.dev/affinity": affinity})
    )
    engine.create(replace(container(name="friend"), id=ContainerId("f")))
    engine.create(container())
    one = engine.containers[ContainerId("c")]
    without = "without its rules it would be placed in socket #0"
    assert find_alternatives(engine.snapshot(), one) == (without,)


def test_a_load_class_is_a_label_and_an_unknown_one_is_told() -> None:
    loads = config_from_values({"loadClasses": [{"name": "avx", "level": "core"}]})
    completed = CentralRules(loads).completed(container({"load.pinfold.dev": "avx"}))
    assert completed.pod.labels == {"app": "llm", "load.pinfold.dev": "avx"}
    assert CentralRules(Config()).completed(completed).pod == completed.pod
    engine = Engine(machine_from_spec("socket:1 core:4"), loads)
    (problem,) = engine.create(container({"load.pinfold.dev": "avy"})).problems
    assert problem.is_advice
    assert str(problem).endswith("has no load class 'avy' — did you mean 'avx'?")


def test_two_load_classes_of_one_name_are_a_fault() -> None:
    twice = [{"name": "avx", "level": "core"}, {"name": "avx", "level": "L3"}]
    with pytest.raises(ConfigError, match="'avx' is the name of two classes"):
        config_from_values({"loadClasses": twice})

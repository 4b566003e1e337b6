"""Shapes of pods that are bad among their like, by what is bad about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pinfold.policy.annotations.annotation_budget import admit
from pinfold.policy.model.container import QosClass
from tests.bench.hostile_globs import pattern_labels, pattern_name, patterns
from tests.bench.hostile_pods import hostile_pods
from tests.bench.hostile_rules import (
    AFFINITY,
    EVERYONE,
    Attacker,
    Rule,
    annotation,
    glob_rules,
    joint_rules,
)
from tests.bench.hostile_terms import shapes_of_terms

CONTAINER: Final = "c"
"""The only one of each pod."""
_CHANCES: Final = 12
"""Shapes made by chance."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod of a number has that is bad about it."""

    annotations: Callable[[int], Mapping[str, str]] = lambda _: {}
    labels: Callable[[int], Mapping[str, str]] = lambda _: {}
    namespace: str = "default"
    qos: QosClass = QosClass.BEST_EFFORT
    name: Callable[[int], str] = "hostile-{}".format


def shapes() -> Mapping[str, Shape]:
    """All shapes by what is bad about them."""
    found = {f"pods, {name}": Shape(_always(texts)) for name, texts in hostile_pods().items()}
    for name, make in _RULES.items():
        found[f"symmetric, {name}"] = Shape(partial(_annotation, make))
    found["labels, many"] = Shape(labels=lambda _: {f"k{one}": "v" for one in range(32_000)})
    found["labels, kept and long"] = Shape(
        labels=lambda number: {f"a{one}.{'k' * 200}": f"v{number}" for one in range(1000)}
    )
    found["labels, like the kubelet's"] = Shape(
        labels=lambda _: {f"io.kubernetes.{one}": "v" for one in range(32_000)}
    )
    found["labels and keys"] = Shape(
        annotations=lambda _: {f"nri{one}": "" for one in range(32_000)},
        labels=lambda _: {f"k{one}": "v" for one in range(32_000)},
    )
    found["keys, nri 32000"] = Shape(lambda _: {f"nri{one:05}": "" for one in range(32_000)})
    found["keys, nri falling"] = Shape(
        lambda _: {f"nri{one:05}": "" for one in range(32_000, 0, -1)}
    )
    found["keys, nri shortest"] = Shape(lambda _: {f"nri{one:x}": "" for one in range(38_000)})
    found["keys, nri few"] = Shape(
        lambda _: {f"{'nri' if one % 80 == 0 else ''}{one:x}": "" for one in range(40_000)}
    )
    found["keys, nri 4000"] = Shape(lambda _: {f"nri{one:x}.{'x' * 50}": "" for one in range(4000)})
    found["keys, shortest"] = Shape(lambda _: {f"{one:x}": "" for one in range(54_000)})
    found["rules, a few near"] = Shape(
        partial(_annotation, lambda _: _near_rules(150, "namespace", "default"))
    )
    found["rules, a few near, joint"] = Shape(
        partial(
            _annotation, lambda _: _near_rules(150, ":namespace:qosclass", "default:BestEffort")
        )
    )
    for name, words in shapes_of_terms().items():
        found[name] = Shape(words, qos=QosClass.BURSTABLE)
        if "everybody" in name:
            found[f"{name}, best effort"] = Shape(words)
            found[f"{name}, elsewhere"] = Shape(words, namespace="crowd", qos=QosClass.BURSTABLE)
            found[f"{name}, a cpu each"] = Shape(words, qos=QosClass.GUARANTEED)
    for name, make in patterns().items():
        found[f"globs, {name}"] = Shape(
            partial(_annotation, make), labels=pattern_labels, name=pattern_name
        )
    for seed in range(_CHANCES):
        found[f"chance {seed}"] = Shape(partial(_chance, seed))
    return found


def _always(texts: Mapping[str, str]) -> Callable[[int], Mapping[str, str]]:
    return lambda _: texts


def _annotation(make: Callable[[int], list[Rule]], number: int) -> Mapping[str, str]:
    """As many of the rules as are read: what is over the budget costs next to nothing."""
    rules = make(number)
    while True:
        texts = annotation(rules, CONTAINER, AFFINITY)
        if len(rules) == 1 or not admit(texts, "").problems:
            return texts
        rules = rules[: len(rules) * 19 // 20]


def _chance(seed: int, number: int) -> Mapping[str, str]:
    """Others for every pod, made in one way."""
    attacker = Attacker(seed, is_symmetric=True)
    for _ in range(number % 4):
        attacker.annotations()
    return {
        key: text.replace('{"main":', f'{{"{CONTAINER}":', 1)
        for key, text in attacker.annotations().items()
    }


def _symmetric(match: Rule, weight: int, scope: Rule = EVERYONE) -> Rule:
    return {"scope": scope, "match": match, "weight": weight, "symmetric": True}


def _near_rules(count: int, key: str, value: str) -> list[Rule]:
    """Rules whose scope is a few containers, or all of them, and each another pattern."""
    return [
        {
            "scope": _condition(key, "Equals", value),
            "match": _condition("pod/name", "Matches", f"*{one:x}?*"),
            "weight": one + 1,
        }
        for one in range(count)
    ]


def _rules(count: int, match: Callable[[int, str], Rule]) -> Callable[[int], list[Rule]]:
    """So many symmetric rules; `match` makes one of its number and what is the pod's own."""
    return lambda number: [
        _symmetric(match(rule, f"{number:x}-{rule:x}-"), rule + 1) for rule in range(count)
    ]


def _condition(key: str, operator: str, *values: str) -> Rule:
    return {"key": key, "operator": operator, "values": [*values]}


def _several(key: str, operator: str, form: str, count: int = 240) -> Callable[[int, str], Rule]:
    """A condition of many values of a form."""
    return lambda _, own: _condition(
        key, operator, *(form.format(f"{own}{one:x}") for one in range(count))
    )


def _terms(word: str, count: int, operator: str = "Equals") -> Callable[[int, str], Rule]:
    return lambda _, own: {
        word: [_condition("name", operator, f"{own}{one:x}") for one in range(count)]
    }


_RULES: Final[Mapping[str, Callable[[int], list[Rule]]]] = {
    "20 of 240 values": _rules(20, _several("name", "In", "{}")),
    "20 of 240 other values": _rules(20, _several("name", "NotIn", "{}")),
    "18 of 240 joint values": _rules(18, _several(":,;name,id", "In", "{};")),
    "17 of 240 joint values of many parts": _rules(17, _several(":,;name,id", "In", "{};;")),
    "20 of 240 heads": _rules(20, _several("name", "MatchesAny", "{}*")),
    "20 of 240 tails": _rules(20, _several("name", "MatchesAny", "*{}")),
    "20 of 240 parts": _rules(20, _several("name", "MatchesAny", "*{}*")),
    "20 of 240 others": _rules(20, _several("name", "MatchesNone", "{}?")),
    "180 of not": _rules(180, lambda _, own: {"not": _condition("name", "In", own)}),
    "190 of not, flat": _rules(
        190, lambda _, own: {"not": {"key": f"tags/{own}", "operator": "Exists"}}
    ),
    "250 plain": _rules(250, lambda _, own: _condition("name", "In", own)),
    "250 joint": lambda number: joint_rules(250, is_symmetric=True, seed=number),
    "250 globs": lambda number: glob_rules(250, is_symmetric=True, seed=number),
    "250 that match": _rules(250, lambda _, own: _condition("name", "In", CONTAINER, own)),
    "250 of present labels": _rules(
        250, lambda _, own: {"key": f"labels/{own}", "operator": "Exists"}
    ),
    "250 of joint keys": _rules(
        250, lambda _, own: {"key": f":name:labels/{own}", "operator": "Exists"}
    ),
    "60 of joint keys of 16": _rules(
        60, lambda _, own: {"key": ":" + ":".join([f"labels/{own}"] * 16), "operator": "Exists"}
    ),
    "120 of not not": _rules(
        120, lambda _, own: {"not": {"not": {"key": f"labels/x{own}", "operator": "NotExists"}}}
    ),
    "one of 200 terms": _rules(1, _terms("any", 200)),
    "one of 200 other terms": _rules(1, _terms("all", 200, "NotEqual")),
    "4 of 100 terms": _rules(4, _terms("any", 100)),
    "100 of 4 terms": _rules(100, _terms("all", 4)),
}  # fmt: skip

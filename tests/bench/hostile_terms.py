"""Required and preferred rules that are meant to cost as much as they can, by what is bad in them.

Terms that no index tells from each other, about everybody or about nobody, each with other words;
all of them are in one annotation.
"""

import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

Term = dict[str, Any]
Words = Callable[[int], Mapping[str, str]]
"""The annotations of the pod of a number."""

KEY: Final = "affinity.pinfold.dev/pod"
RULES_MAX: Final = 32
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
LASTING: Final = "requiredDuringSchedulingRequiredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_LEVELS: Final = ("core", "l3", "numa", "socket")
_NAMES: Final = ("pod.name", "pod.uid", "container.name", "pod.qos")
_CHANCES: Final = 12
"""Sets of terms made by chance."""


def term(level: str, number: int, one: int, values: int = 12) -> Term:
    """About everybody: the words of a term are its own, and its pod's."""
    words = [f"v{number}-{one}-{value}" for value in range(values)]
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": words}]}
    return {"topologyKey": level, "labelSelector": selector, "namespaceSelector": {}}


def terms(number: int, count: int, levels: tuple[str, ...] = ("core",)) -> list[Term]:
    """So many terms about everybody."""
    return [term(levels[one % len(levels)], number, one) for one in range(count)]


def apart(some: list[Term], field: str = REQUIRED) -> Term:
    """Required anti-affinity."""
    return {"podAntiAffinity": {field: some}}


def near(some: list[Term], field: str = REQUIRED) -> Term:
    """Required affinity."""
    return {"podAffinity": {field: some}}


def preferred(some: list[Term], weight: int = 100, *, is_anti: bool = False) -> Term:
    """Preferred rules of one weight."""
    kind = "podAntiAffinity" if is_anti else "podAffinity"
    return {kind: {_PREFERRED: [{"weight": weight, "podAffinityTerm": one} for one in some]}}


def text(*rules: Term) -> Mapping[str, str]:
    """The annotation of some rules."""
    found: dict[str, Any] = {}
    for one in rules:
        for kind, fields in one.items():
            found[kind] = {**found.get(kind, {}), **fields} if isinstance(fields, dict) else fields
    return {KEY: json.dumps(found, separators=(",", ":"))}


def shapes_of_terms() -> Mapping[str, Words]:
    """Annotations by what is bad about them."""
    found: dict[str, Words] = {}
    for count in (1, 4, RULES_MAX):
        found[f"{count} terms against everybody"] = partial(_against, count)
        found[f"{count} terms for everybody"] = partial(_for, count)
        found[f"{count} required terms for everybody"] = partial(_required_for, count)
    found |= _MIXED
    for seed in range(_CHANCES):
        found[f"terms by chance {seed}"] = partial(_chance, seed)
    return found


def _against(count: int, number: int) -> Mapping[str, str]:
    return text(apart(terms(number, count)))


def _for(count: int, number: int) -> Mapping[str, str]:
    return text(preferred(terms(number, count)))


def _required_for(count: int, number: int) -> Mapping[str, str]:
    return text(near(terms(number, count)))


def _of_some(number: int) -> Mapping[str, str]:
    """Each about another part of the pods, by the last digits of their names."""
    chance = random.Random(number)
    some = [
        {
            "topologyKey": "core",
            "labelSelector": {
                "matchExpressions": [
                    {
                        "key": "pod.name",
                        "operator": "NotIn",
                        "values": [f"hostile-{chance.randrange(200)}" for _ in range(16)],
                    }
                ]
            },
            "namespaceSelector": {},
        }
        for _ in range(RULES_MAX)
    ]
    return text(apart(some[::2]), near(some[1::2]))


def _many_keys(number: int) -> Mapping[str, str]:
    """Rules that an index keeps under as many different labels as a newcomer is sure to have."""
    some: list[Term] = []
    for one in range(RULES_MAX):
        exists = {"key": _NAMES[one % len(_NAMES)], "operator": "Exists"}
        other = {"key": "app", "operator": "NotIn", "values": [f"v{number}-{one}"]}
        some.append(
            {
                "topologyKey": "core",
                "labelSelector": {"matchExpressions": [exists, other]},
                **({"namespaceSelector": {}} if one % 8 < 4 else {}),
            }
        )
    return text(apart(some))


def _spread(number: int) -> Mapping[str, str]:
    rules = [
        {
            "maxSkew": 1,
            "topologyKey": _LEVELS[one % len(_LEVELS)],
            "whenUnsatisfiable": "DoNotSchedule" if one % 2 else "ScheduleAnyway",
            "labelSelector": term("core", number, one)["labelSelector"],
        }
        for one in range(RULES_MAX)
    ]
    return {KEY: json.dumps({"topologySpread": rules}, separators=(",", ":"))}


def _both(number: int) -> Mapping[str, str]:
    some = terms(number, RULES_MAX, _LEVELS)
    return text(near(some[::2]), apart(some[1::2]))


def _lasting(number: int) -> Mapping[str, str]:
    some = terms(number, RULES_MAX, _LEVELS)
    return text(near(some[::2], LASTING), apart(some[1::2], LASTING))


def _equal(number: int) -> Mapping[str, str]:
    del number
    return text(apart(terms(0, RULES_MAX)))


def _equal_near(number: int) -> Mapping[str, str]:
    del number
    return text(near(terms(0, RULES_MAX)))


def _insisting(number: int) -> Mapping[str, str]:
    return {**_both(number), "on-unsatisfiable.pinfold.dev/pod": "fail"}


_MIXED: Final[Mapping[str, Words]] = {
    "terms, required both ways": _both,
    "terms, required during execution": _lasting,
    "terms, the same of all against everybody": _equal,
    "terms, the same of all for everybody": _equal_near,
    "terms, each about others": _of_some,
    "terms, under many labels": _many_keys,
    "terms, spread": _spread,
    "terms, insisting": _insisting,
}


def _chance(seed: int, number: int) -> Mapping[str, str]:
    chance = random.Random(seed)
    levels = tuple(chance.sample(_LEVELS, chance.choice([1, 2, 4])))
    operators = chance.choice([["NotIn"], ["Exists"], ["DoesNotExist"], ["NotIn", "In", "Exists"]])
    keys = chance.sample(["app", "k1", *_NAMES], chance.choice([1, 3]))
    kinds = chance.choice(
        [["apart"], ["near"], ["apart", "near"], ["apart", "near", "pref", "anti"]]
    )
    is_own, count = chance.random() < 0.7, chance.choice([4, 16, RULES_MAX])
    width = chance.choice([1, 8, 16])
    rules: list[Term] = []
    by_kind: dict[str, list[Term]] = {}
    for one in range(count):
        expressions: list[Term] = []
        for part in range(chance.choice([1, 2])):
            operator = chance.choice(operators)
            expression: Term = {"key": chance.choice(keys), "operator": operator}
            if operator in ("In", "NotIn"):
                owner = number if is_own else 0
                expression["values"] = [f"w{owner}-{one}-{part}-{v}" for v in range(width)]
            expressions.append(expression)
        found: Term = {
            "topologyKey": chance.choice(levels),
            "labelSelector": {"matchExpressions": expressions},
        }
        if chance.random() < 0.8:
            found["namespaceSelector"] = {}
        by_kind.setdefault(kinds[one % len(kinds)], []).append(found)
    for kind, some in by_kind.items():
        match kind:
            case "apart":
                rules.append(apart(some))
            case "near":
                rules.append(near(some))
            case _:
                rules.append(preferred(some, is_anti=kind == "anti"))
    return text(*rules)

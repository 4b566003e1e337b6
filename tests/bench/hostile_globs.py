"""Rules whose patterns are meant to cost as much as they can, by what is bad in them.

Each pod has patterns of its own, which nobody has compiled before; names and labels are as long as
Kubernetes allows, and have every character that a pattern can ask for.
"""

import random
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tests.bench.hostile_rules import EVERYONE, Rule

Rules = Callable[[int], list[Rule]]
"""Those of the pod of a number, more than a pod may have."""

_LETTERS: Final = string.ascii_lowercase + string.digits
_LABELS: Final = 120
_NAME_LENGTH: Final = 246
_JOINT: Final = ":,/pod/name,namespace,name"
_LONG: Final = ":;," + ";".join(["pod/name"] * 16)
_LONG_IN_PARTS: Final = ":;/" + ";".join(["pod/name"] * 16)


def pattern_name(number: int) -> str:
    """The name of a pod: one of its own from the begin on."""
    chance = random.Random(number)
    rest = "".join(chance.choices(_LETTERS, k=_NAME_LENGTH - len(_LETTERS)))
    return f"{rest}{_LETTERS}-{number:06}"


def pattern_labels(number: int) -> Mapping[str, str]:
    """The labels of a pod: one that all have alike, one of its own, and many to be passed over."""
    found = {f"l{number}-{one}": "v" for one in range(_LABELS)}
    return found | {"all": _LETTERS, "app": pattern_name(number)[:63]}


def patterns() -> Mapping[str, Rules]:
    """Rules by what is bad about them."""
    return {
        "30 of 20 classes over a joint key": _rules(30, 20, "[a-z]*[0-9]*{}?", _JOINT),
        "60 of 8 classes": _rules(60, 8, "[a-z]*[0-9]*{}?"),
        "128 of 4 classes": _rules(128, 4, "[a-z]*[0-9]*{}?"),
        "128 of six classes": _rules(128, 1, "*" + "[a-z0-9]" * 6 + "{}"),
        "classes of two letters": _classes(30, 2),
        "classes of two letters at once": _classes(1, 60),
        "classes of two letters, symmetric": _classes(8, 2, is_symmetric=True),
        "60 of 8 with many stars": _rules(60, 8, "*a*b*c*d*e*{}", "pod/labels/app"),
        "many stars over a long joint key": _rules(30, 20, "*a*b*c*d*e*{}", _LONG),
        "ends over a long joint key": _rules(10, 240, "*{}", _LONG),
        "ends over a long joint key of parts": _rules(60, 8, "*/*/?*{}", _LONG_IN_PARTS),
        "begins with a class": _rules(128, 1, "[a-z]*?{}", _JOINT),
        "many keys of two parts": _joint_keys(":pod/name:pod/labels/l{}"),
        "many keys of two parts of few": _joint_keys(":pod/name:pod/labels/l{}", "pod/id"),
        "terms with many stars": _terms("*a*b*c*d*e*{}"),
    }


def _rules(rules: int, values: int, form: str, key: str = "pod/name") -> Rules:
    """So many rules of so many patterns of a form each."""
    return lambda number: [
        _rule(_matches(key, (form.format(f"{number:x}{one:x}{n:x}") for n in range(values))), one)
        for one in range(rules)
    ]


def _classes(rules: int, values: int, *, is_symmetric: bool = False) -> Rules:
    """Patterns of nothing but classes, each another one."""

    def make(number: int) -> list[Rule]:
        chance, found = random.Random(number), list[Rule]()
        for one in range(rules):
            globs = ["*" + _class_run(chance) for _ in range(values)]
            rule = _rule(_matches("pod/labels/all", globs), one)
            found.append(rule | {"symmetric": True} if is_symmetric else rule)
        return found

    return make


def _class_run(chance: random.Random) -> str:
    return "".join(f"[{''.join(chance.sample(_LETTERS, 2))}]" for _ in range(30))


def _joint_keys(key: str, scope: str = "") -> Rules:
    """Each rule about another joint key; `scope`: a fact of which each pod has its own."""

    def make(number: int) -> list[Rule]:
        found: list[Rule] = []
        for one in range(128):
            rule = _rule(_matches(key.format(f"{number}-{one}"), [f"*{number:x}{one:x}?"]), one)
            values = [f"{pod:064x}" for pod in range(8)]
            few: Rule = {"key": scope, "operator": "In", "values": values}
            found.append(rule | {"scope": few} if scope else rule)
        return found

    return make


def _terms(form: str) -> Rules:
    """One of twenty conditions after another."""

    def make(number: int) -> list[Rule]:
        found: list[Rule] = []
        for one in range(128):
            text = form.format(f"{number:x}{one:x}{{:x}}")
            each = [_matches("pod/name", [text.format(term)]) for term in range(20)]
            found.append(_rule({"any": each}, one))
        return found

    return make


def _matches(key: str, globs: Iterable[str]) -> Rule:
    return {"key": key, "operator": "MatchesAny", "values": [*globs]}


def _rule(match: Rule, weight: int) -> Rule:
    return {"scope": EVERYONE, "match": match, "weight": weight + 1}

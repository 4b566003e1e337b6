"""Affinity rules that are meant to cost as much as they can, and ordinary ones in great number."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.policy.annotations.annotation_budget import MARKS_MAX, admit
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.rules import affinity, affinity_reader
from pinfold.policy.text.text_cache import TextCache
from tests.bench.sizes import Size
from tests.bench.timings import Timings

AFFINITY: Final = "resource-policy.nri.io/affinity"
ANTI_AFFINITY: Final = "resource-policy.nri.io/anti-affinity"
TEXT_MAX: Final = 64 * 1024
NODES_MAX: Final = MARKS_MAX

Rule = dict[str, object]
EVERYONE: Final[Rule] = {"operator": "AlwaysTrue"}
_FIELDS: Final = (
    "pod/name", "name", "namespace", "qosclass", "id", "pod/id", "pod/uid", "labels/app",
    "pod/labels/app", "pod/labels/team", "labels/io.kubernetes.pod.name", "tags/none",
)  # fmt: skip


def container(
    number: int,
    annotations: Mapping[str, str],
    *,
    name_length: int = 20,
    per_pod: int = 1,
    labels: Mapping[str, str] | None = None,
) -> Container:
    """The container of a number; its annotations are for the name `main`."""
    pod_number = number // per_pod
    # As they come from a runtime: what is beyond a pod's budget is never seen by the rules.
    admitted = admit(annotations, f"pod {pod_number}")
    pod = Pod(
        id=PodId(f"{pod_number:064x}"),
        name=f"{'a' * (name_length - 6)}{pod_number:06}",
        namespace=f"team-{pod_number % 8}",
        uid=f"{pod_number:036x}",
        labels={"app": f"app-{pod_number % 40}", "team": f"team-{pod_number % 8}"}
        | dict(labels or {}),
        annotations=admitted.annotations,
        annotation_problems=admitted.problems,
    )
    return Container(
        id=ContainerId(f"{number:064x}"),
        name="main" if number % per_pod == 0 else f"sidecar-{number % per_pod}",
        pod=pod,
        labels={"io.kubernetes.pod.name": pod.name},
    )


def product_annotation() -> Mapping[str, str]:
    """25 rules of 249 patterns over a joint key of 16 parts, for everyone."""
    key = ":" + ":".join(["pod/name"] * 16)
    globs = [f"*b{n:x}*" for n in range(249)]
    match = {"key": key, "operator": "MatchesAny", "values": globs}
    return annotation([{"scope": EVERYONE, "match": match, "weight": n + 1} for n in range(25)])


def joint_rules(count: int, *, is_symmetric: bool = False, seed: int = 0) -> list[Rule]:
    """Ordinary rules with joint keys."""
    return [
        {
            "scope": EVERYONE,
            "match": {
                "key": ":namespace:pod/labels/app",
                "operator": "Equals",
                "values": [
                    f"team-{n % 8}:app-{(n + seed) % 40}-{n}"
                    if n % 4
                    else f"team-{n % 8}:app-{n % 40}"
                ],
            },
            "weight": n % 1000 + 1,
            **({"symmetric": True} if is_symmetric else {}),
        }
        for n in range(count)
    ]


def glob_rules(count: int, *, is_symmetric: bool = False, seed: int = 0) -> list[Rule]:
    """Ordinary rules with patterns of ends of names."""
    return [
        {
            "scope": EVERYONE,
            "match": {"key": "pod/name", "operator": "Matches", "values": [f"*{n * 3 + seed:03}"]},
            "weight": n % 1000 + 1,
            **({"symmetric": True} if is_symmetric else {}),
        }
        for n in range(count)
    ]


def joint_glob_rules(count: int) -> list[Rule]:
    """Ordinary rules with patterns of ends over a joint key."""
    return [
        {
            "scope": EVERYONE,
            "match": {
                "key": ":namespace:name:pod/name",
                "operator": "Matches",
                "values": [f"*{n:03}"],
            },
            "weight": n % 1000 + 1,
        }
        for n in range(count)
    ]


def annotation(rules: list[Rule], name: str = "main", key: str = AFFINITY) -> Mapping[str, str]:
    """The annotation that gives a container these rules, the text as short as it can be."""
    return {key: json.dumps({name: rules}, separators=(",", ":"))}


class Attacker:
    """Makes annotations by chance, each as large as it may be."""

    def __init__(self, seed: int, *, is_symmetric: bool = False) -> None:
        self._chance = random.Random(seed)
        self._is_symmetric = is_symmetric
        chance = self._chance
        self._parts = chance.choice([1, 1, 2, 16])
        self._values = chance.choice([1, 2, 16, 249])
        self._length = chance.choice([2, 5, 20, 60, 500])
        self._terms = chance.choice([1, 1, 3, 20, 200])
        self._depth = chance.choice([0, 1, 2, 5])
        self._fields = chance.sample(_FIELDS, chance.choice([1, 3, len(_FIELDS)]))
        self._alphabet = chance.choice(["a", "ab", "a0123456789", "a*", "*?a", "a[", "a/", "/*a0"])
        self._form = chance.choice(
            ["*{}", "{}*", "*{}*", "{}", "*{}*a*", "?{}", "[a-z]*{}", "a*{}", "*/{}"]
        )
        self._operators = chance.choice(
            [["MatchesAny"], ["MatchesNone"], ["In"], ["NotIn"], ["Exists", "NotExists"],
             ["MatchesAny", "In", "NotIn", "MatchesNone", "Exists", "AlwaysTrue"]]
        )  # fmt: skip
        self._is_scoped = chance.random() < 0.5

    def __str__(self) -> str:
        words = (f"{name[1:]}={value}" for name, value in vars(self).items() if name != "_chance")
        return " ".join(words)

    def annotations(self) -> Mapping[str, str]:
        """Both annotations, up to their limits."""
        return dict(
            item
            for key in (AFFINITY, ANTI_AFFINITY)
            for item in annotation(self._rules(), key=key).items()
        )

    def _rules(self) -> list[Rule]:
        rules: list[Rule] = []
        size, nodes = 20, 4
        while len(rules) < affinity_reader.MAX_RULES:
            rule: Rule = {"match": self._expression(self._depth)}
            rule["scope"] = self._expression(self._depth) if self._is_scoped else EVERYONE
            rule["weight"] = self._chance.randint(-1000, 1000)
            if self._is_symmetric:
                rule["symmetric"] = True
            text = json.dumps(rule, separators=(",", ":"))
            size += len(text) + 1
            nodes += text.count(",") + text.count(":{") + text.count(":[") + 2 + text.count('":')
            if size > TEXT_MAX or nodes > NODES_MAX:
                break
            rules.append(rule)
        return rules or [{"match": EVERYONE}]

    def _expression(self, depth: int) -> Rule:
        chance = self._chance
        if not depth:
            return self._condition()
        word = chance.choice(["all", "any", "not"])
        if word == "not":
            return {"not": self._expression(depth - 1)}
        return {
            word: [
                self._expression(depth - 1) for _ in range(min(self._terms, 40 if depth < 2 else 3))
            ]
        }

    def _condition(self) -> Rule:
        chance = self._chance
        operator = chance.choice(self._operators)
        if operator == "AlwaysTrue":
            return EVERYONE
        parts = [chance.choice(self._fields) for _ in range(self._parts)]
        key = parts[0] if self._parts == 1 else ":" + ":".join(parts)
        found: Rule = {"key": key, "operator": operator}
        if "Exists" not in operator:
            found["values"] = [self._value(operator) for _ in range(self._values)]
        return found

    def _value(self, operator: str) -> str:
        length = self._chance.randint(1, self._length)
        text = "".join(self._chance.choice(self._alphabet) for _ in range(length))
        if "In" in operator:
            return text
        if "[" in text:
            text = text.replace("[", "[a-z]")[:490]
            text = text[: text.rindex("]") + 1]
        return self._form.format(text)[:512]


def time_rules(size: Size, samples: int, *, make: Callable[[int], list[Rule]]) -> Timings:
    """The decision about a container of the most ordinary rules that nobody has read before."""
    return _time(size, [annotation(make(affinity_reader.MAX_RULES))] * samples, [])


def time_product(size: Size, samples: int) -> Timings:
    """The decision about a container whose rules, patterns, keys and texts multiply."""
    return _time(size, [product_annotation()] * samples, [])


def time_attacks(size: Size, samples: int) -> Timings:
    """The decision about a container of hostile rules, others each time."""
    attacks = [Attacker(seed, is_symmetric=seed % 2 == 1) for seed in range(samples)]
    return _time(size, [one.annotations() for one in attacks], [])


def time_symmetric(size: Size, samples: int) -> Timings:
    """The decision about a plain container where every other has eight symmetric rules."""
    kept = [
        annotation((glob_rules if seed % 2 else joint_rules)(8, is_symmetric=True, seed=seed))
        for seed in range(size.containers)
    ]
    plain: Mapping[str, str] = {}
    return _time(size, [plain] * samples, kept)


def _time(
    size: Size, annotations: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, str]]
) -> Timings:
    engine = Engine(size.machine, Config())
    for number in range(size.containers):
        engine.create(container(number, kept[number] if kept else {}, per_pod=2))
    timings, garbage = Timings(), GarbageCollector()
    garbage.start()
    try:
        for number, texts in enumerate(annotations, start=size.containers):
            _forget_rules()
            newcomer = container(number, texts)
            timings.time(partial(engine.create, newcomer))
            engine.remove(newcomer.id)
            garbage.sweep()
    finally:
        garbage.stop()
    return timings


def _forget_rules() -> None:
    for value in vars(affinity).values():
        if isinstance(value, TextCache):
            value.cache_clear()

"""Weighted rules between containers, as pods write them in annotations.

A rule that cannot be understood is reported and left out; the others of the annotation count. That
is safe because weights are wishes: losing one never makes a placement wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ..annotations.annotation_keys import DOMAINS
from ..model.container import Container, Pod
from ..text.errors import Problem
from ..text.suggestion import suggestion
from ..text.text_cache import TextCache
from ..text.yaml_nodes import Position, TextError, TextList, TextMap, TextNode, TextScalar
from ..text.yaml_text import parse_text
from .expression import ALWAYS, Condition, Expression, Reading, condition, parse_expression
from .operators import ANYTHING
from .podaffinity.written_fields import is_absent, whole_number

MAX_WEIGHT = 1000
MAX_RULES = 128
MAX_FAULTS = 16
"""To find what an author meant takes longer than to read what is right."""
COLOCATION_WEIGHT = 10
RULE_FIELDS = ("scope", "match", "weight", "symmetric")
_RULE_FIELDS = frozenset(RULE_FIELDS)

# Key suffix and the sign of its weights; of several domains the first one present counts.
SIGNS: Mapping[str, int] = {"affinity": 1, "anti-affinity": -1}

Rules = Mapping[str, "tuple[AffinityRule, ...]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityRule:
    """Adds `weight` for every other container in `scope` that fulfils `match`."""

    scope: Expression
    match: Expression
    weight: int
    """From -MAX_WEIGHT to MAX_WEIGHT, never 0; a positive one pulls, a negative one pushes."""
    is_symmetric: bool = False
    """Whether it also counts when the other container is placed and this one is there already."""
    is_mutual: bool = field(default=False, compare=False)
    """Whether it is shorthand, which gives the other the same rule, where weights are symmetric."""
    source: str = field(default="", compare=False)
    """The annotation and line it comes from, for people."""


def parse_affinity(
    pod_annotations: Mapping[str, str], pod: Pod, *, is_symmetric: bool = False
) -> tuple[Rules, tuple[Problem, ...]]:
    """The rules of a pod by container name, and what is wrong with its annotations.

    `is_symmetric` is for rules in full syntax that do not say. Shorthand expands into a rule for
    each of the two containers, so that the one that is placed later sees the other.
    """
    by_name, problems = _parse_texts(_texts(pod_annotations), is_symmetric)
    bound = {name: bind_rules(rules, pod) for name, rules in by_name.items()}
    return bound, _bind_problems(problems, pod)


AFFINITY_KEYS = tuple(f"{domain}/{suffix}" for domain in DOMAINS for suffix in SIGNS)

# Pods of one workload have the same texts, which are parsed once: these stand in for a pod.
_POD_PATH = "\0"
_SAME_POD = condition("pod/id", "Equals", "")


def affinity_rules(
    container: Container,
    *,
    is_symmetric: bool = False,
    colocate_pods: bool = False,
    colocate_namespaces: bool = False,
) -> tuple[tuple[AffinityRule, ...], tuple[Problem, ...]]:
    """The rules of one container, and the problems of its pod's affinity annotations.

    The co-location rules are for containers without rules of their own.
    """
    pod = container.pod
    by_name, problems = _parse_texts(_texts(pod.annotations), is_symmetric)
    rules = bind_rules(by_name.get(container.name, ()), pod)
    if not rules:
        rules = (colocate_pods_rule(pod),) if colocate_pods else ()
        rules += (colocate_namespaces_rule(pod),) if colocate_namespaces else ()
    return rules, _bind_problems(problems, pod)


def colocate_pods_rule(pod: Pod) -> AffinityRule:
    """Pulls towards all containers of the same pod."""
    return AffinityRule(
        scope=same_pod(pod), match=ALWAYS, weight=COLOCATION_WEIGHT, source="colocatePods"
    )


def colocate_namespaces_rule(pod: Pod) -> AffinityRule:
    """Pulls towards all containers of the same namespace."""
    return AffinityRule(
        scope=ALWAYS,
        match=condition("namespace", "Equals", pod.namespace),
        weight=COLOCATION_WEIGHT,
        source="colocateNamespaces",
    )


def same_pod(pod: Pod) -> Condition:
    """True for containers of this pod, not of another pod of the same name."""
    return condition("pod/id", "Equals", pod.id) if pod.id else _SAME_POD


def _texts(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple([(key, annotations[key]) for key in AFFINITY_KEYS if key in annotations])


def bind_rules(rules: tuple[AffinityRule, ...], pod: Pod) -> tuple[AffinityRule, ...]:
    """The rules of a pod without an id, as another pod with the same annotations has them."""
    for rule in rules:
        if rule.scope is _SAME_POD:
            break
    else:
        return rules
    scope = same_pod(pod)
    return tuple(
        [replace(rule, scope=scope) if rule.scope is _SAME_POD else rule for rule in rules]
    )


def _bind_problems(problems: tuple[Problem, ...], pod: Pod) -> tuple[Problem, ...]:
    if not problems:
        return ()
    path = f"{pod.namespace}/{pod.name}"
    return tuple(replace(one, where=one.where.replace(_POD_PATH, path, 1)) for one in problems)


@TextCache
def _parse_texts(
    texts: tuple[tuple[str, str], ...], is_symmetric: bool
) -> tuple[Rules, tuple[Problem, ...]]:
    """The rules in texts of any pod; `_SAME_POD` and `_POD_PATH` stand for the pod."""
    if not texts:
        return MappingProxyType({}), ()
    rules: dict[str, tuple[AffinityRule, ...]] = {}
    problems: list[Problem] = []
    used: dict[str, str] = {}
    reading = Reading()
    for key, text in texts:
        suffix = key.partition("/")[2]
        if suffix in used:
            what = f"{used[suffix]!r} is there too and counts alone"
            fix = "merge the two"
            problems.append(Problem(where=f"{key} of {_POD_PATH}", what=what, fix=fix))
            continue
        used[suffix] = key
        reader = _Reader(key, SIGNS[suffix], reading, is_symmetric=is_symmetric)
        reader.read(text)
        problems += reader.problems
        for name, own in reader.rules().items():
            rules[name] = rules.get(name, ()) + own
    return MappingProxyType(rules), tuple(problems)


class _Reader:
    """Reads one annotation, keeping the good rules and the problems of the others."""

    def __init__(self, key: str, sign: int, reading: Reading, *, is_symmetric: bool) -> None:
        self.problems: list[Problem] = []
        self._key = key
        self._sign = sign
        self._is_symmetric = is_symmetric
        self._full: dict[str, list[AffinityRule]] = {}
        # Each pair once, in the order written, whichever of the two named it.
        self._friends: dict[str, dict[str, None]] = {}
        self._count = 0
        self._faults = 0
        self._reading = reading

    def read(self, text: str) -> None:
        where = f"{self._key} of {_POD_PATH}"
        try:
            node = parse_text(text)
            if not isinstance(node, TextMap):
                place = node or TextScalar(value="", mark=Position(0, 0))
                fix = "write 'container: [other]' or 'container:' and a list of rules"
                raise TextError.at(place, "not a mapping of container names", fix)
        except TextError as error:
            self.problems.append(error.problem(where))
            return
        for name, value in node.entries:
            self._read_container(name.value, value)

    def rules(self) -> dict[str, tuple[AffinityRule, ...]]:
        """The rules by container, shorthand last."""
        found = {name: tuple(rules) for name, rules in self._full.items() if rules}
        # Of two that name everyone each names the other: their pair counts once, as any.
        of_everyone = dict(self._friends.pop(ANYTHING, {}))
        for name in of_everyone:
            self._friends[name].update(of_everyone)
            del self._friends[name][name]
        for name, friends in self._friends.items():
            friends.pop(ANYTHING, None)
            rules = list(found.get(name, ()))
            if friends:
                rules.append(self._friendly(condition("name", "In", *friends)))
            if name in of_everyone:
                strangers = condition("name", "NotIn", *friends) if friends else ALWAYS
                rules.append(replace(self._friendly(strangers), is_symmetric=True))
            found[name] = tuple(rules)
        return found

    def _friendly(self, match: Condition) -> AffinityRule:
        return AffinityRule(
            scope=_SAME_POD,
            match=match,
            weight=self._sign,
            is_mutual=self._is_symmetric,
            source=f"{self._key} (shorthand)",
        )

    def _read_container(self, name: str, value: TextNode) -> None:
        where = f"{self._key} of {_POD_PATH}/{name[:80]}"
        if self._is_given_up(value, where, name):
            return
        items = value.items if isinstance(value, TextList) else ()
        if not isinstance(value, TextList):
            fix = "write a list of container names or of rules"
            self._faults += 1
            self.problems.append(
                TextError.at(value, "not a list", fix).problem(where, container=name)
            )
        for item in items:
            if self._is_given_up(item, where, name):
                return
            self._count += 1
            if self._count > MAX_RULES:
                if self._count == MAX_RULES + 1:
                    fix = f"write at most {MAX_RULES}; the rest is left out"
                    self.problems.append(
                        TextError.at(item, "too many rules", fix).problem(where, container=name)
                    )
                return
            try:
                if isinstance(item, TextScalar):
                    self._read_friend(name, item)
                else:
                    rule = self._read_rule(item, where, name)
                    self._full.setdefault(name, []).append(rule)
                    self._advise(where, name)
            except TextError as error:
                self._reading.advice.clear()
                self._faults += 1
                self.problems.append(error.problem(where, container=name))

    def _is_given_up(self, node: TextNode, where: str, name: str) -> bool:
        """Whether too much is wrong to go on; what each fault may have meant takes its time."""
        if self._faults == MAX_FAULTS:
            self._faults += 1
            what, fix = f"more than {MAX_FAULTS} faults, the rest is left out", "mend those first"
            self.problems.append(TextError.at(node, what, fix).problem(where, container=name))
        return self._faults > MAX_FAULTS

    def _read_friend(self, name: str, item: TextScalar) -> None:
        if item.is_null or not item.value:
            raise TextError.at(item, "an empty container name", "name a container")
        if item.value == name:
            raise TextError.at(
                item, f"{name!r} has a rule towards itself", "name another container"
            )
        self._friends.setdefault(name, {})[item.value] = None
        self._friends.setdefault(item.value, {})[name] = None

    def _advise(self, where: str, name: str) -> None:
        # One of a kind will do for a rule.
        for advice in {advice.what: advice for advice in self._reading.advice[::-1]}.values():
            problem = advice.problem(where, container=name)
            self.problems.append(replace(problem, is_advice=True))
        self._reading.advice.clear()

    def _read_rule(self, node: TextNode, where: str, name: str) -> AffinityRule:
        if not isinstance(node, TextMap):
            raise TextError.at(node, "not a rule", "write {match: ..., weight: ...}")
        written = {name.value: value for name, value in node.entries}
        if not _RULE_FIELDS.issuperset(written):
            raise _unknown_fields(node)
        match = written.get("match")
        if match is None:
            fix = "write match: {key: ..., operator: ..., values: [...]}"
            raise TextError.at(node, "a rule without match", fix)
        given = {name: value for name, value in written.items() if not is_absent(value)}
        return AffinityRule(
            scope=parse_expression(given["scope"], self._reading)
            if "scope" in given
            else _SAME_POD,
            match=parse_expression(match, self._reading),
            weight=self._read_weight(given.get("weight"), where, name),
            is_symmetric=self._read_symmetric(given.get("symmetric")),
            source=f"{self._key}:{node.line}",
        )

    def _read_weight(self, node: TextNode | None, where: str, name: str) -> int:
        if node is None:
            return self._sign
        fix = f"write a whole number from {-MAX_WEIGHT} to {MAX_WEIGHT}"
        weight = whole_number(node)
        if weight is None:
            raise TextError.at(node, "the weight is not a whole number", fix)
        written = node.value[:20] if isinstance(node, TextScalar) else ""
        used = max(-MAX_WEIGHT, min(weight, MAX_WEIGHT))
        if used != weight:
            what = f"weight {written} is outside the range, {used} is used"
            error = TextError.at(node, what, fix)
            self.problems.append(error.problem(where, container=name))
        if self._sign < 0 and used < 0:
            fix = "leave the '-' out to push, or write the rule under 'affinity'"
            what = f"the weight {written} in an anti-affinity pulls"
            self._reading.advice.append(TextError.at(node, what, fix))
        # 0 counts as left out, as it does for the peer.
        return self._sign * (used or 1)

    def _read_symmetric(self, node: TextNode | None) -> bool:
        if node is None:
            return self._is_symmetric
        word = node.value.lower() if isinstance(node, TextScalar) and node.is_plain else ""
        if word not in ("true", "false"):
            raise TextError.at(
                node, "'symmetric' is neither true nor false", "write symmetric: true"
            )
        return word == "true"


def _unknown_fields(rule: TextMap) -> TextError:
    unknown = [name for name, _ in rule.entries if name.value not in RULE_FIELDS]
    names = ", ".join(repr(name.value) for name in unknown)
    what = f"unknown field{'s' if len(unknown) > 1 else ''} {names[:200]} in a rule"
    scope = rule.find("scope")
    is_fallen_out = {name.value for name in unknown} <= {"key", "operator", "values"}
    if is_fallen_out and isinstance(scope, TextScalar) and scope.is_null:
        return TextError.at(unknown[0], what, "indent them further than 'scope'")
    return TextError.at(unknown[0], what, suggestion(unknown[0].value, RULE_FIELDS))

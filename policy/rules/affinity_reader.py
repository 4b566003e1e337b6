"""The reader of weighted rules in the text of an annotation.

A rule that cannot be understood is reported and left out; the others of the annotation count. That
is safe because weights are wishes: losing one never makes a placement wrong.
"""

from dataclasses import replace
from typing import Final

from ..text.errors import Problem
from ..text.suggestion import suggestion
from ..text.yaml_nodes import Position, TextError, TextList, TextMap, TextNode, TextScalar
from ..text.yaml_text import parse_text
from .affinity_rule import MAX_WEIGHT, OF_SAME_POD, AffinityRule
from .expression import ALWAYS, Condition, Reading, condition, parse_expression
from .operators import ANYTHING
from .written_fields import is_absent, whole_number

MAX_RULES: Final = 128
MAX_FAULTS: Final = 16
"""To find what an author meant takes longer than to read what is right."""
RULE_FIELDS: Final = ("scope", "match", "weight", "symmetric")
_RULE_FIELDS: Final = frozenset(RULE_FIELDS)
POD_PATH: Final = "\0"
"""Stands for the path of the pod in problems: many pods have the same text."""


class AffinityReader:
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
        """Take in the text of the annotation: its rules and its problems."""
        where = f"{self._key} of {POD_PATH}"
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
            scope=OF_SAME_POD,
            match=match,
            weight=self._sign,
            is_mutual=self._is_symmetric,
            source=f"{self._key} (shorthand)",
        )

    def _read_container(self, name: str, value: TextNode) -> None:
        where = f"{self._key} of {POD_PATH}/{name[:80]}"
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
            else OF_SAME_POD,
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

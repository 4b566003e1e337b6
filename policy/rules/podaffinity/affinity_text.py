"""The text of an affinity annotation, or of an addedAffinity, as rules, and what is wrong in it.

A rule that cannot be read is reported and left out; the others count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ...configuration.affinity_fields import REQUIREMENTS_MAX, RULES_MAX
from ...text.errors import Problem
from ...text.yaml_nodes import TextError, TextList, TextMap, TextNode, TextScalar
from ...text.yaml_text import parse_text
from ..written_fields import WrittenFields, is_absent, unknown_field
from .label_selector import LabelSelector
from .pool_term import PoolPreference, PoolRequirement
from .pool_text import parse_pool_preference, parse_pool_requirement
from .rule_set import PreferredTerm, RequiredTerm, SpreadRule
from .term import Term
from .term_text import parse_spread, parse_term, parse_weight, pattern_slips, pseudo_label_slips
from .written_rules import NO_WRITTEN_RULES, Written, WrittenRules

MAX_FAULTS: Final = 16
"""To find what an author meant takes longer than to read what is right."""
REQUIRED_FIELDS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": False,
    "requiredDuringSchedulingRequiredDuringExecution": True,
}
"""Fields of Kubernetes' schema that hold required rules, and whether during execution, too."""
PREFERRED_FIELD: Final = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY_FIELDS: Final = ("podAffinity", "podAntiAffinity", "poolAffinity", "topologySpread")
_LIST_FIELDS: Final = (*REQUIRED_FIELDS, PREFERRED_FIELD)


def parse_affinity_text(text: str, key: str) -> WrittenRules:
    """The rules in the text of an annotation called `key`. Never raises."""
    try:
        node = parse_text(text)
    except TextError as error:
        return WrittenRules(problems=(error.problem(key),))
    return read_affinity(node, key)


def read_affinity(node: TextNode | None, key: str) -> WrittenRules:
    """The rules that a node spells, in a text called `key`. Never raises."""
    if node is None or is_absent(node):
        return NO_WRITTEN_RULES
    reader = _Reader(key)
    reader.read(node)
    return reader.rules()


class _GivenUpError(Exception):
    """Too much is wrong to go on."""


class _Reader:
    def __init__(self, key: str) -> None:
        self._key = key
        self._required: list[Written[RequiredTerm]] = []
        self._preferred: list[Written[PreferredTerm]] = []
        self._spread: list[Written[SpreadRule]] = []
        self._pool_required: list[PoolRequirement] = []
        self._pool_preferred: list[PoolPreference] = []
        self._problems: list[Problem] = []
        self._faults = 0
        self._advised = 0
        self._count = 0
        self._requirements = 0

    def rules(self) -> WrittenRules:
        """All that could be read."""
        return WrittenRules(
            required=tuple(self._required),
            preferred=tuple(self._preferred),
            spread=tuple(self._spread),
            pool_required=tuple(self._pool_required),
            pool_preferred=tuple(self._pool_preferred),
            problems=tuple(self._problems),
        )

    def read(self, node: TextNode) -> None:
        try:
            if not isinstance(node, TextMap):
                fix = f"write some of {', '.join(AFFINITY_FIELDS)}"
                self._fault(TextError.at(node, "not a mapping of kinds of rules", fix))
                return
            for name, value in node.entries:
                self._read_section(node, name, value)
        except _GivenUpError:
            pass

    def _read_section(self, node: TextMap, name: TextScalar, value: TextNode) -> None:
        match name.value:
            case unknown if unknown not in AFFINITY_FIELDS:
                self._fault(_unknown(node, name, value, "an affinity", AFFINITY_FIELDS))
            case _ if is_absent(value):
                pass
            case "poolAffinity":
                self._read_pools(name.value, value)
            case "topologySpread":
                self._read_spread(name.value, value)
            case terms:
                self._read_terms(terms, value)

    def _read_terms(self, section: str, node: TextNode) -> None:
        is_anti = section == "podAntiAffinity"
        kind = "anti-affinity" if is_anti else "affinity"
        for field, value in self._fields(section, node):
            for item in self._items(field, value):
                try:
                    self._charge(item)
                    if field == PREFERRED_FIELD:
                        self._read_preferred(item, kind, is_anti=is_anti)
                    else:
                        written = self._term(item, item, kind)
                        rule = RequiredTerm(
                            term=written.rule, is_anti=is_anti, is_lasting=REQUIRED_FIELDS[field]
                        )
                        self._required.append(Written(rule, written.label_keys))
                        self._review(written.rule.selector, item)
                except TextError as error:
                    self._fault(error)

    def _read_preferred(self, item: TextNode, kind: str, *, is_anti: bool) -> None:
        fields = WrittenFields(item, "a preferred term", ("weight", "podAffinityTerm"))
        weight = self._weight(fields)
        node = fields.need("podAffinityTerm", "write podAffinityTerm: {topologyKey: ..}")
        written = self._term(node, item, f"preferred {kind}")
        rule = PreferredTerm(term=written.rule, weight=-weight if is_anti else weight)
        self._preferred.append(Written(rule, written.label_keys))
        self._review(written.rule.selector, node)

    def _term(self, node: TextNode, item: TextNode, kind: str) -> Written[Term]:
        written = parse_term(node, self._source(item), kind)
        term = written.rule
        count = written.label_keys.count_with(term.selector, term.namespaces.selector)
        self._charge_requirements(node, count)
        for what, fix in pattern_slips(term.namespaces):
            self._advise(node, what, fix)
        return written

    def _read_pools(self, section: str, node: TextNode) -> None:
        for field, value in self._fields(section, node):
            try:
                if field != PREFERRED_FIELD:
                    self._read_pool_requirement(value, field)
            except TextError as error:
                self._fault(error)
            for item in self._items(field, value) if field == PREFERRED_FIELD else ():
                try:
                    self._charge(item)
                    self._read_pool_preference(item)
                except TextError as error:
                    self._fault(error)

    def _read_pool_requirement(self, node: TextNode, field: str) -> None:
        self._charge(node)
        requirement = parse_pool_requirement(
            node, field, self._source(node), is_lasting=REQUIRED_FIELDS[field]
        )
        self._charge_requirements(node, sum(len(term.expressions) for term in requirement.terms))
        self._pool_required.append(requirement)
        if not all(term.expressions for term in requirement.terms):
            self._advise(node, "an empty term matches no pool", "leave it out")

    def _read_pool_preference(self, item: TextNode) -> None:
        fields = WrittenFields(item, "a preferred term", ("weight", "preference"))
        weight = self._weight(fields)
        preference = parse_pool_preference(fields, weight, self._source(item))
        self._charge_requirements(item, len(preference.term.expressions))
        if preference.term.expressions:
            self._pool_preferred.append(preference)
        else:
            self._advise(item, "an empty preference has no effect", "leave it out")

    def _read_spread(self, section: str, node: TextNode) -> None:
        if not isinstance(node, TextList):
            fix = "write topologySpread: [{maxSkew: 1, topologyKey: numa, labelSelector: {..}}]"
            self._fault(TextError.at(node, f"{section!r} is not a list", fix))
            return
        for item in node.items:
            try:
                self._charge(item)
                written = parse_spread(item, self._source(item))
                count = written.label_keys.count_with(written.rule.selector)
                self._charge_requirements(item, count)
                self._spread.append(written)
                self._review(written.rule.selector, item)
            except TextError as error:
                self._fault(error)

    def _fields(self, section: str, node: TextNode) -> Iterator[tuple[str, TextNode]]:
        """The known fields of a section that hold something."""
        if not isinstance(node, TextMap):
            fix = f"fields: {', '.join(_LIST_FIELDS)}"
            self._fault(TextError.at(node, f"{section!r} is not a mapping", fix))
            return
        for name, value in node.entries:
            if name.value not in _LIST_FIELDS:
                self._fault(_unknown(node, name, value, repr(section), _LIST_FIELDS))
            elif not is_absent(value):
                yield name.value, value

    def _items(self, field: str, node: TextNode) -> tuple[TextNode, ...]:
        if isinstance(node, TextList):
            return node.items
        self._fault(TextError.at(node, f"{field!r} is not a list", f"write {field}: [..]"))
        return ()

    def _weight(self, fields: WrittenFields) -> int:
        node = fields.need("weight", "write a whole number from 1 to 100")
        weight, what = parse_weight(node)
        if what:
            error = TextError.at(node, what, "write a whole number from 1 to 100")
            self._problems.append(error.problem(self._key))
        return weight

    def _review(self, selector: LabelSelector | None, node: TextNode) -> None:
        if selector is None:
            fix = "write labelSelector: {} to mean all containers"
            self._advise(node, "a rule without labelSelector is about nobody", fix)
        for what, fix in pseudo_label_slips(selector) if self._advised < MAX_FAULTS else ():
            self._advise(node, what, fix)

    def _advise(self, node: TextNode, what: str, fix: str) -> None:
        self._advised += 1
        if self._advised > MAX_FAULTS:
            return
        problem = TextError.at(node, what, fix).problem(self._key)
        self._problems.append(replace(problem, is_advice=True))

    def _charge(self, node: TextNode) -> None:
        self._count += 1
        if self._count > RULES_MAX:
            what = f"more than {RULES_MAX} rules, the rest is left out"
            error = TextError.at(node, what, "write fewer")
            self._problems.append(error.problem(self._key))
            raise _GivenUpError

    def _charge_requirements(self, node: TextNode, count: int) -> None:
        self._requirements += count
        if self._requirements > REQUIREMENTS_MAX:
            # A smaller rule after it may fit.
            self._requirements -= count
            what = f"more than {REQUIREMENTS_MAX} requirements in the rules of the annotation"
            raise TextError.at(node, what, "write fewer")

    def _fault(self, error: TextError) -> None:
        self._problems.append(error.problem(self._key))
        self._faults += 1
        if self._faults >= MAX_FAULTS:
            what = f"{MAX_FAULTS} faults, the rest is left out"
            last = TextError(what, "mend those first", line=error.line, column=error.column)
            self._problems.append(last.problem(self._key))
            raise _GivenUpError

    def _source(self, node: TextNode) -> str:
        # Values of the configuration have their field for a key, and no line.
        return f"{self._key}:{node.line}" if node.line else self._key


def _unknown(
    node: TextMap, name: TextScalar, value: TextNode, what: str, known: Sequence[str]
) -> TextError:
    return unknown_field(TextMap(node.mark, ((name, value),)), what, known)

"""Terms, spread rules and weights in the text of a rule, as values."""

from collections.abc import Iterator
from typing import Final

from ....topology.model.machine import Level
from ....topology.sets.base_errors import quoted
from ...configuration.affinity_fields import RULE_WEIGHT_MAX
from ...model.container import QosClass
from ...model.level_name import parse_level
from ...text.glob import has_wildcard
from ...text.suggestion import nearest, suggestion
from ...text.yaml_nodes import TextError, TextList, TextNode
from ..written_fields import TERM_FIELDS, WrittenFields, whole_number, word_of
from .label_selector import LabelSelector
from .namespace_scope import NamespaceScope
from .rule_set import SpreadRule
from .selector_text import parse_selector
from .term import POD_QOS, PSEUDO_LABELS, Term
from .written_rules import LabelKeys, Written

SPREAD_FIELDS: Final = (
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    "labelSelector",
    "matchLabelKeys",
    "minDomains",
)
_QOS_NAMES: Final = tuple(one.value for one in QosClass)
_WHEN_UNSATISFIABLE: Final = {"DoNotSchedule": True, "ScheduleAnyway": False}


def parse_term(node: TextNode, source: str, kind: str) -> Written[Term]:
    """The term a node spells. Raises `TextError`.

    For people: `source`, and `kind`, which is "affinity" or "anti-affinity".
    """
    fields = WrittenFields(node, "a term", TERM_FIELDS)
    level = _parse_level(fields)
    selector = parse_selector(fields.find("labelSelector"), "'labelSelector'")
    scope = NamespaceScope(
        frozenset(fields.words("namespaces")),
        parse_selector(fields.find("namespaceSelector"), "'namespaceSelector'"),
    )
    keys = _parse_label_keys(fields, selector)
    is_pod_scope = _parse_scope(fields, selector, keys)
    where = ""
    if is_pod_scope:
        where = " of its own pod"
    elif not scope.is_own:
        where = f" in {scope}"
    who = _selector_text(selector, keys)
    term = Term(
        level=level,
        selector=selector,
        namespaces=scope,
        is_pod_scope=is_pod_scope,
        text=f"{kind} at {level.value} to {who}{where} ({source})",
        source=source,
    )
    return Written(term, keys)


def parse_spread(node: TextNode, source: str) -> Written[SpreadRule]:
    """The spread rule a node spells; `source` is for people. Raises `TextError`."""
    fields = WrittenFields(node, "a topologySpread", SPREAD_FIELDS)
    level = _parse_level(fields)
    fields.need("maxSkew", "write maxSkew: 1")
    skew = fields.number("maxSkew", 1) or 1
    when = fields.word("whenUnsatisfiable") or "DoNotSchedule"
    if when not in _WHEN_UNSATISFIABLE:
        place = fields.find("whenUnsatisfiable") or node
        names = " or ".join(_WHEN_UNSATISFIABLE)
        raise TextError.at(place, f"unknown whenUnsatisfiable {quoted(when)}", f"write {names}")
    is_required = _WHEN_UNSATISFIABLE[when]
    domains = fields.number("minDomains", 1)
    if domains is not None and not is_required:
        place = fields.find("minDomains") or node
        fix = "leave it out, or write whenUnsatisfiable: DoNotSchedule"
        raise TextError.at(place, "'minDomains' is for DoNotSchedule alone", fix)
    selector = parse_selector(fields.find("labelSelector"), "'labelSelector'")
    keys = _parse_label_keys(fields, selector)
    at_least = f", {domains} of them at least" if domains is not None and domains > 1 else ""
    rule = SpreadRule(
        max_skew=skew,
        level=level,
        selector=selector,
        is_required=is_required,
        min_domains=domains or 1,
        text=f"spread over {level.value}{at_least}, at most {skew} apart:"
        f" {_selector_text(selector, keys)} ({source})",
        source=source,
    )
    return Written(rule, keys)


def parse_weight(node: TextNode) -> tuple[int, str]:
    """The weight from 1 to 100 that counts, and what is wrong with it. Raises `TextError`."""
    weight = whole_number(node)
    if weight is None:
        fix = f"write a whole number from 1 to {RULE_WEIGHT_MAX}"
        raise TextError.at(node, "the weight is not a whole number", fix)
    used = min(max(weight, 1), RULE_WEIGHT_MAX)
    if used == weight:
        return used, ""
    return used, f"weight {word_of(node, 'weight')[:20]} is outside the range, {used} is used"


def pseudo_label_slips(selector: LabelSelector | None) -> Iterator[tuple[str, str]]:
    """Keys that look like pseudo-labels and are none, and classes that are none; and how to fix it.

    The first of a selector alone: what may be meant takes a while to find.
    """
    for requirement in selector.requirements if selector is not None else ():
        key = requirement.key
        if key == POD_QOS:
            wrong = [one for one in requirement.values if one not in _QOS_NAMES]
            if wrong:
                what = f"{quoted(wrong[0])} is no QoS class, no pod is of it"
                yield what, suggestion(wrong[0], _QOS_NAMES)
                break
        elif key.startswith(("pod.", "container.")) and key not in PSEUDO_LABELS and "/" not in key:
            meant = nearest(key, PSEUDO_LABELS)
            fix = f"did you mean {meant!r}?" if meant else "write it with its prefix, as a label"
            yield f"{key!r} is no pseudo-label, only a label of that name", fix
            break


def pattern_slips(namespaces: NamespaceScope) -> Iterator[tuple[str, str]]:
    """The first name of a namespace that is a pattern, which no name can be; and how to fix it."""
    patterns = [name for name in namespaces.names if has_wildcard(name)]
    if patterns:
        what = f"{quoted(min(patterns))} is a pattern, and no namespace has such a name"
        yield what, "write the names, or a namespaceSelector: {} means all"


def _parse_level(fields: WrittenFields) -> Level:
    node = fields.need("topologyKey", "write topologyKey: numa, for example")
    try:
        return parse_level(word_of(node, "'topologyKey'"))
    except ValueError as error:
        what, fix = map(str, error.args)
        raise TextError.at(node, what, fix) from error


def _parse_label_keys(fields: WrittenFields, selector: LabelSelector | None) -> LabelKeys:
    is_spread = fields.what.endswith("Spread")
    keys = LabelKeys(
        tuple(dict.fromkeys(fields.words("matchLabelKeys"))),
        () if is_spread else tuple(dict.fromkeys(fields.words("mismatchLabelKeys"))),
    )
    if not keys:
        return keys
    place = fields.find("matchLabelKeys") or fields.find("mismatchLabelKeys") or fields.node
    if selector is None:
        what = "label keys without labelSelector"
        raise TextError.at(place, what, "write labelSelector: {} beside them")
    named = {requirement.key for requirement in selector.requirements}
    for key in keys.match:
        if key in named:
            what = f"{quoted(key)} is in matchLabelKeys and in labelSelector"
            raise TextError.at(place, what, "leave it out of one of them")
        if key in keys.mismatch:
            what = f"{quoted(key)} is in matchLabelKeys and in mismatchLabelKeys"
            raise TextError.at(place, what, "leave it out of one of them")
    return keys


def _parse_scope(fields: WrittenFields, selector: LabelSelector | None, keys: LabelKeys) -> bool:
    node = fields.find("scope")
    if node is None:
        return False
    if word_of(node, "'scope'") != "pod":
        fix = "write scope: pod, or leave it out"
        raise TextError.at(node, f"unknown scope {quoted(word_of(node, 'scope'))}", fix)
    for name in ("namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys"):
        place = fields.find(name)
        is_empty_list = isinstance(place, TextList) and not place.items
        if place is not None and not is_empty_list:
            what = f"{name!r} beside 'scope: pod', which is about one pod"
            raise TextError.at(place, what, "leave one of the two out")
    for requirement in selector.requirements if selector is not None else ():
        if requirement.key not in PSEUDO_LABELS:
            what = f"the label {quoted(requirement.key)} is the same in a pod's containers"
            fix = f"under 'scope: pod' use {', '.join(PSEUDO_LABELS)}"
            raise TextError.at(fields.find("labelSelector") or node, what, fix)
    assert not keys
    return True


def _selector_text(selector: LabelSelector | None, keys: LabelKeys) -> str:
    if selector is None:
        return "nobody"
    parts = [str(selector)] if selector.requirements or not keys else []
    parts += [f"the same {key}" for key in keys.match]
    parts += [f"another {key}" for key in keys.mismatch]
    return ", ".join(parts)

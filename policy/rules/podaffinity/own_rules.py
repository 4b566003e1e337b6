"""Rules in a container's own annotations: affinity, pool-selector, pool-name and the fate."""

from dataclasses import replace
from typing import Final

from msgspec import Struct, structs

from ....topology.sets.base_errors import quoted
from ...annotations.annotation_keys import RULE_KEYS
from ...annotations.annotations import Annotations, Scope, Setting, read_annotations
from ...configuration.config import OnUnsatisfiable
from ...model.container import Container
from ...text.errors import Problem
from ...text.suggestion import suggestion
from ...text.text_cache import TextCache
from .affinity_text import parse_affinity_text
from .pool_text import parse_pool_selector
from .written_rules import NO_WRITTEN_RULES, WrittenRules

AFFINITY_KEY, POOL_SELECTOR_KEY, POOL_NAME_KEY, ON_UNSATISFIABLE_KEY = RULE_KEYS

_parse: Final = TextCache(parse_affinity_text)


class OwnRules(Struct, frozen=True, kw_only=True):
    """Rules in a container's annotations: those of a text, and beside them what has its own key."""

    written: WrittenRules
    pool_name: str | None
    on_unsatisfiable: OnUnsatisfiable
    problems: tuple[Problem, ...]
    where: str
    """The affinity annotation, for people."""


def own_rules(annotations: Annotations, container: Container, default: OnUnsatisfiable) -> OwnRules:
    """The rules in the annotations of a container's pod; `default` is the configuration's fate."""
    problems: list[Problem] = []
    settings = {key: annotations.effective(key, container.name) for key in RULE_KEYS}
    written = NO_WRITTEN_RULES
    affinity = settings[AFFINITY_KEY]
    if affinity is not None:
        written = _parse(affinity.value, affinity.key)
        problems += [_of(one, affinity, container) for one in written.problems]
    selector = settings[POOL_SELECTOR_KEY]
    if selector is not None:
        try:
            pool = parse_pool_selector(selector.value, selector.key)
            written = structs.replace(written, pool_required=(*written.pool_required, pool))
        except ValueError as error:
            problems.append(_fault(error, selector, container))
    name = settings[POOL_NAME_KEY]
    pool_name = name.value.strip() if name is not None else None
    if name is not None and not pool_name:
        fix = "write the name of a pool, as 'pinfold pools' prints it"
        problems.append(_fault(ValueError("no name", fix), name, container))
    fate = default
    wanted = settings[ON_UNSATISFIABLE_KEY]
    if wanted is not None:
        try:
            fate = OnUnsatisfiable.parse(wanted.value)
        except ValueError:
            what = f"{quoted(wanted.value)} is not accepted"
            fix = suggestion(wanted.value, [one.value for one in OnUnsatisfiable])
            problems.append(_fault(ValueError(what, fix), wanted, container))
    return OwnRules(
        written=written,
        pool_name=pool_name or None,
        on_unsatisfiable=fate,
        problems=tuple(problems),
        where="" if affinity is None else _where(affinity, container),
    )


def selected_namespace_labels(container: Container) -> frozenset[str]:
    """The labels of namespaces that the affinity annotation of a container asks for."""
    written = _written(container)
    terms = [one.rule.term for one in written.required]
    terms += [one.rule.term for one in written.preferred]
    scopes = (term.namespaces.selector for term in terms)
    return frozenset(one.key for scope in scopes if scope for one in scope.requirements)


def has_label_keys(container: Container) -> bool:
    """Whether labels of its own complete a rule in the affinity annotation of a container."""
    written = _written(container)
    keys = [one.label_keys for one in written.required]
    keys += [one.label_keys for one in written.preferred]
    keys += [one.label_keys for one in written.spread]
    return any(keys)


def _written(container: Container) -> WrittenRules:
    setting = read_annotations(container.pod.annotations).effective(AFFINITY_KEY, container.name)
    return NO_WRITTEN_RULES if setting is None else _parse(setting.value, setting.key)


def _where(setting: Setting, container: Container) -> str:
    pod = f"{setting.key} of {container.pod.namespace}/{container.pod.name}"
    return f"{pod}/{container.name}" if setting.scope is Scope.CONTAINER else pod


def _of(problem: Problem, setting: Setting, container: Container) -> Problem:
    """A problem of a text as one of a container's annotation."""
    name = container.name if setting.scope is Scope.CONTAINER else ""
    return replace(problem, where=_where(setting, container), container=name)


def _fault(error: ValueError, setting: Setting, container: Container) -> Problem:
    what, fix = map(str, error.args)
    return _of(Problem(where="", what=what, fix=fix), setting, container)

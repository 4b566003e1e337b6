"""Every annotation we know, and which of a pod's annotations holds for a container.

A setting is written `KEY.DOMAIN/container.NAME`, `KEY.DOMAIN/pod` or `KEY.DOMAIN`; the first of
these present counts. The older style `DOMAIN/KEY` with lines `container: value` comes after
`container.NAME`. A plain key is written `DOMAIN/KEY` only.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from .container import Pod
from .errors import Problem
from .suggestion import nearest, suggestion
from .yamltext import TextError, TextList, TextMap, TextNode, parse_text, text_of

OWN_DOMAIN = "pinfold.dev"
NRI_DOMAIN = "resource-policy.nri.io"
CRI_DOMAIN = "cri-resource-manager.intel.com"
DOMAINS = (OWN_DOMAIN, NRI_DOMAIN, CRI_DOMAIN)
"""Where several give the same key at the same scope, the first counts."""

RESOURCES_KEY = "noderesource.dev/resources"
"""Requests and limits in JSON, written by a webhook; not of our domains."""

_PEER = (NRI_DOMAIN, CRI_DOMAIN)
_OWN = (OWN_DOMAIN,)
_BOOL = "true or false"


class Scope(enum.IntEnum):
    """How specific a setting is; the more specific one counts."""

    UNSCOPED = 0
    POD = 1
    CONTAINER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One row of the table: how a key is written and what it means."""

    name: str
    domains: tuple[str, ...]
    values: str
    meaning: str
    is_plain: bool = False
    fields: tuple[str, ...] = ()
    """Of values that are mappings: their fields."""

    def written(self, domain: str) -> str:
        """The key as a pod's author writes it for the whole pod."""
        return f"{domain}/{self.name}" if self.is_plain else f"{self.name}.{domain}/pod"


def _scoped(
    name: str,
    values: str,
    meaning: str,
    domains: tuple[str, ...] = _PEER,
    fields: tuple[str, ...] = (),
) -> KnownKey:
    return KnownKey(name=name, domains=domains, values=values, meaning=meaning, fields=fields)


def _plain(name: str, meaning: str) -> KnownKey:
    values = "rules by container name"
    return KnownKey(name=name, domains=DOMAINS, values=values, meaning=meaning, is_plain=True)


_LEVELS = "system, package, die, numa, l3cache, l2cache, core or thread"
_PATHS = "'type: prefix' or 'type: glob', and 'paths: [..]'"

KEYS: tuple[KnownKey, ...] = (
    _scoped("prefer-isolated-cpus", _BOOL, "take exclusive cpus from the kernel-isolated ones"),
    _scoped("require-isolated-cpus", _BOOL, "the same, and fail where there are too few"),
    _scoped("prefer-shared-cpus", _BOOL, "no exclusive cpus, although the request would give some"),
    _scoped(
        "prefer-cpu-priority",
        "high, normal, low, none or default",
        "which kind of cpus exclusive ones should be",
    ),
    _scoped("prefer-reserved-cpus", _BOOL, "run on the cpus reserved for system tasks"),
    _scoped("hide-hyperthreads", _BOOL, "use one thread of each core and leave the others idle"),
    _scoped("memory-type", "some of dram, pmem, hbm, cxl, or mixed", "the memory to be near"),
    _scoped(
        "cold-start",
        "'duration: 10s', at most 1h",
        "begin without dram, which is added after that time",
        fields=("duration",),
    ),
    _scoped("cpu.preserve", "true", "leave the cpus of the container alone"),
    _scoped("memory.preserve", "true", "leave the memory nodes of the container alone"),
    _scoped("pick-resources-by-hints", _BOOL, "take exclusive cpus near the devices"),
    _scoped("unlimited-burstable", _LEVELS, "how wide a container without cpu limit may spread"),
    _scoped("scheduling-class", "the name of a class", "scheduling parameters of the processes"),
    _scoped("cpu-class", "the name of a class", "frequency parameters of the exclusive cpus"),
    _scoped(
        "irq-affinity",
        "'claim: [..]', 'mask: [..]' and 'mode: mask-first' or 'claim-first'",
        "interrupts to get on the exclusive cpus, or to keep away",
        fields=("claim", "mask", "mode"),
    ),
    _scoped(
        "topologyhints",
        "true, false, or some of mounts, devices, pod-resources, all, none",
        "what the container should be near",
    ),
    _scoped(
        "allow.topologyhints", _PATHS, "hints that a deny is not for", fields=("type", "paths")
    ),
    _scoped("deny.topologyhints", _PATHS, "hints to leave out", fields=("type", "paths")),
    _scoped("strict.topologyhints", _BOOL, "fail where hints cannot be followed"),
    _scoped("test.topologyhints", "hints by provider", "hints for tests"),
    _scoped("rdtclass", "the name of a class", "cache and memory bandwidth class"),
    _scoped("blockioclass", "the name of a class", "block device bandwidth class"),
    _scoped("toptierlimit", "an amount of memory", "known, without effect"),
    _plain("affinity", "which containers to be near"),
    _plain("anti-affinity", "which containers to keep away from"),
    _scoped(
        "affinity",
        "podAffinity, podAntiAffinity and poolAffinity, as in Kubernetes",
        "rules at a level of the machine, required or preferred",
        _OWN,
        ("podAffinity", "podAntiAffinity", "poolAffinity"),
    ),
    _scoped("pool-selector", "'label=value, ..'", "the labels a pool must have", _OWN),
    _scoped("pool-name", "the name of a pool", "the pool to use", _OWN),
    _scoped("on-unsatisfiable", "fail or degrade", "what to do if a required rule fails", _OWN),
    _scoped("smt", "pack, spread, hide or any", "how to use the threads of cores", _OWN),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The value that holds for a container, how specific it was given, and under which key."""

    value: str
    scope: Scope
    key: str


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a pod's annotations say, by (key, container name), and what is wrong with them.

    The container name is empty for settings of the whole pod.
    """

    settings: Mapping[tuple[str, str], Setting] = field(
        default_factory=lambda: MappingProxyType(dict[tuple[str, str], Setting]())
    )
    problems: tuple[Problem, ...] = ()

    def effective(self, key: str, container_name: str) -> Setting | None:
        """The setting that holds for a container; None where nobody gave one."""
        return self.settings.get((key, container_name)) or self.settings.get((key, ""))


NO_ANNOTATIONS = Annotations()


def effective(annotations: Mapping[str, str], key: str, container_name: str) -> Setting | None:
    """The setting of a key that holds for a container; None where nobody gave one."""
    return read_annotations(annotations).effective(key, container_name)


def annotation_problems(pod: Pod) -> tuple[Problem, ...]:
    """What is wrong with the keys of a pod's annotations, not with the values."""
    return tuple(
        Problem(
            where=f"{problem.where} of {pod.namespace}/{pod.name}",
            what=problem.what,
            fix=problem.fix,
            line=problem.line,
            column=problem.column,
        )
        for problem in read_annotations(pod.annotations).problems
    )


def read_annotations(annotations: Mapping[str, str]) -> Annotations:
    """The settings in a pod's annotations. Never raises; a pod without ours costs next to nothing.

    `where` of its problems is the annotation alone.
    """
    ours = own_annotations(annotations)
    return _read(ours) if ours else NO_ANNOTATIONS


def own_annotations(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The annotations under our domains or names that look like them, in their order."""
    return tuple(
        item
        for item in annotations.items()
        if "resource-" in item[0] or "pinfold" in item[0] or "nri" in item[0]
    )


_SCOPED: Mapping[tuple[str, str], KnownKey] = {
    (domain, key.name): key for key in KEYS if not key.is_plain for domain in key.domains
}
_PLAIN: Mapping[tuple[str, str], KnownKey] = {
    (domain, key.name): key for key in KEYS if key.is_plain for domain in key.domains
}
# A domain that the peer's documentation once had by mistake.
_MISTAKEN_DOMAINS: Mapping[str, str] = {"resource-manager.nri.io": NRI_DOMAIN}
# How alike two domains are that people mix up: resource-manager.nri.io, resource-policy.nri.com.
_NEAR_DOMAIN = 0.85
_NEAR_DOMAIN_WITH_KNOWN_KEY = 0.7


@lru_cache(maxsize=1024)
def _read(annotations: tuple[tuple[str, str], ...]) -> Annotations:
    reader = _Reader()
    for key, value in annotations:
        reader.read(key, value)
    return Annotations(MappingProxyType(reader.settings()), tuple(reader.problems))


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        # (precedence, setting) by (key, container): the highest precedence counts.
        self._found: dict[tuple[str, str], tuple[tuple[int, ...], Setting]] = {}

    def settings(self) -> dict[tuple[str, str], Setting]:
        return {place: setting for place, (_, setting) in self._found.items()}

    def read(self, key: str, value: str) -> None:
        head, slash, tail = key.partition("/")
        domain = next((domain for domain in DOMAINS if _is_in(head, domain)), None)
        if domain is None:
            self._check_foreign(key, head, tail)
        elif head == domain:
            self._read_plain(key, domain, tail, value)
        else:
            name = head[: -len(domain) - 1]
            if (domain, name) not in _SCOPED:
                self._report(key, f"unknown annotation {name!r}", _fix_name(domain, name, tail))
            elif not slash or tail == "pod":
                scope = Scope.POD if slash else Scope.UNSCOPED
                self._put(domain, name, "", Setting(value, scope, key), is_map=False)
            elif tail.startswith("container.") and tail != "container.":
                setting = Setting(value, Scope.CONTAINER, key)
                self._put(domain, name, tail.removeprefix("container."), setting, is_map=False)
            else:
                fix = f"write '{name}.{domain}/pod' or '{name}.{domain}/container.NAME'"
                self._report(key, f"unknown scope {tail!r}", fix)

    def _put(
        self, domain: str, name: str, container: str, setting: Setting, *, is_map: bool
    ) -> None:
        precedence = (setting.scope.value, -int(is_map), -DOMAINS.index(domain))
        before = self._found.get((name, container))
        if before is None or precedence > before[0]:
            self._found[name, container] = precedence, setting

    def _read_plain(self, key: str, domain: str, name: str, value: str) -> None:
        if (domain, name) in _PLAIN:
            return
        known = _SCOPED.get((domain, name))
        if known is None or domain == OWN_DOMAIN:
            self._report(key, f"unknown annotation {name!r}", _fix_name(domain, name, "pod"))
            return
        try:
            node = parse_text(value)
        except TextError as error:
            self.problems.append(error.problem(key))
            return
        if isinstance(node, TextMap) and not _is_one_value(known, node):
            for container, item in node.entries:
                setting = Setting(_item_text(known, item), Scope.CONTAINER, key)
                self._put(domain, name, container.value, setting, is_map=True)
        elif node is not None and domain == CRI_DOMAIN:
            self._put(domain, name, "", Setting(value, Scope.POD, key), is_map=True)
        else:
            fix = f"write '{known.written(domain)}', or lines 'container: value'"
            self._report(key, "not a mapping of container names", fix)

    def _check_foreign(self, key: str, head: str, tail: str) -> None:
        names = {known.name for known in KEYS}
        parts = head.split(".")
        for start in range(min(len(parts), 4)):
            domain, name = ".".join(parts[start:]), ".".join(parts[:start])
            is_known = (name or tail) in names
            cutoff = _NEAR_DOMAIN_WITH_KNOWN_KEY if is_known else _NEAR_DOMAIN
            near = _MISTAKEN_DOMAINS.get(domain) or nearest(domain, DOMAINS, cutoff)
            if near:
                meant = f"{name}.{near}" if name else near
                fix = f"did you mean '{meant}/{tail}'?" if tail else f"did you mean '{meant}'?"
                self._report(key, f"unknown domain {domain!r}", fix)
                return

    def _report(self, key: str, what: str, fix: str) -> None:
        self.problems.append(Problem(where=key, what=what, fix=fix))


def _is_in(head: str, domain: str) -> bool:
    return head == domain or head.endswith("." + domain)


def _is_one_value(known: KnownKey, node: TextNode) -> bool:
    """Whether a mapping is a value for the whole pod, not one value per container."""
    return (
        isinstance(node, TextMap)
        and bool(known.fields)
        and all(name.value in known.fields for name, _ in node.entries)
    )


def _item_text(known: KnownKey, item: TextNode) -> str:
    if isinstance(item, TextList) and not known.fields:
        return ",".join(map(text_of, item.items))
    return text_of(item)


def _fix_name(domain: str, name: str, tail: str) -> str:
    """What the author may have meant: the key in the domain it belongs to, or a similar one."""
    if not name:
        return f"write 'KEY.{domain}/pod'"
    for known in KEYS:
        if known.name == name:
            home = domain if domain in known.domains else known.domains[0]
            return f"did you mean '{_written(known, home, tail)}'?"
    near = nearest(name, [known.name for known in KEYS])
    if near:
        meant = next(
            (known for known in KEYS if known.name == near and domain in known.domains),
            next(known for known in KEYS if known.name == near),
        )
        home = domain if domain in meant.domains else meant.domains[0]
        return f"did you mean '{_written(meant, home, tail)}'?"
    return suggestion(name, sorted({known.name for known in KEYS if domain in known.domains}))


def _written(known: KnownKey, domain: str, tail: str) -> str:
    if known.is_plain or not tail:
        return known.written(domain)
    return f"{known.name}.{domain}/{tail}"

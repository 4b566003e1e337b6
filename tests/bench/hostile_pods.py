"""Pods that try to cost as much as a pod can: annotations of up to 256 KiB, devices and mounts.

Kubernetes lets the annotations of a pod come to 256 KiB, keys and values together.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

ANNOTATIONS_BYTES_MAX: Final = 256 * 1024

_NRI: Final = "resource-policy.nri.io"
_CRI: Final = "cri-resource-manager.intel.com"
_OWN: Final = "pinfold.dev"
_RESOURCES: Final = "noderesource.dev/resources"
_ROOM: Final = 253 * 1024
"""For one value, beside its key."""

_RULE: Final = (
    "- scope: {key: pod/name, operator: Equals, values: [residents]}\n"
    "  match: {key: namespace, operator: In, values: [default, other]}\n"
    "  weight: 5\n"
)
_SHORT_RULE: Final = (
    "- match: {key: namespace, operator: In, values: [default, other]}\n  weight: 5\n"
)
_GLOB_RULE: Final = "- match: {{key: name, operator: MatchesAny, values: [{}]}}\n"


def hostile_pods() -> Mapping[str, Mapping[str, str]]:
    """Annotations by what is bad about them."""
    return {name: _fitted(make()) for name, make in _PODS.items()}


def _fitted(entries: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """As many of the entries as Kubernetes would let a pod have."""
    found: dict[str, str] = {}
    size = 0
    for key, value in entries:
        size += len(key.encode()) + len(value.encode())
        if size > ANNOTATIONS_BYTES_MAX:
            break
        found[key] = value
    return found


def _value(key: str, value: str) -> Callable[[], Iterator[tuple[str, str]]]:
    return lambda: iter([(key, value)])


def _pod_value(
    name: str, value: str, domain: str = _NRI
) -> Callable[[], Iterator[tuple[str, str]]]:
    return _value(f"{name}.{domain}/pod", value)


def _own_terms(fields: str, count: int) -> Callable[[], Iterator[tuple[str, str]]]:
    """Required anti-affinity, so many times with these fields."""
    terms = ", ".join([f"{{topologyKey: numa, {fields}}}"] * count)
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    return _pod_value("affinity", f"podAntiAffinity: {{{field}: [{terms}]}}", _OWN)


def _keys(pattern: str, value: str = "x") -> Callable[[], Iterator[tuple[str, str]]]:
    return lambda: ((pattern.format(number), value) for number in range(100_000))


def _names(pattern: str, separator: str) -> str:
    """Different names until an annotation is full."""
    texts = (pattern.format(number) for number in range(_ROOM))
    found, size = list[str](), 0
    for text in texts:
        size += len(text) + len(separator)
        if size > _ROOM:
            break
        found.append(text)
    return separator.join(found)


def _map_styles() -> Iterator[tuple[str, str]]:
    """The older style under every key there is, each with many containers."""
    for domain in (_NRI, _CRI):
        for name in ("memory-type", "cpu-class", "rdtclass", "blockioclass", "smt", "cold-start"):
            for spoiled in ("", "x", "s"):
                text = "".join(f"c{number}: dram\n" for number in range(600))
                yield f"{domain}/{name}{spoiled}", text


def _resource_entries() -> str:
    entry = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1"}}
    return json.dumps({"containers": {f"c{number}": entry for number in range(3000)}})


def _globs(count: int) -> str:
    return ", ".join("'" + "*a" * 10 + str(number) + "'" for number in range(count))


_PODS: Final[Mapping[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    "hints, unknown kinds": _pod_value("topologyhints", _names("x{}", ",")),
    "hints, one kind": _pod_value("topologyhints", "mounts," * (_ROOM // 7)),
    "hints, no kind": _pod_value("topologyhints", "," * _ROOM),
    "keys, near domains": _keys("smt.pinfold.de{}/pod"),
    "keys, near domains of known keys": _keys("smt.resource-policy.nri.i{}"),
    "keys, domains like ours": _keys("a.b.c.resource-plicy.nri.{}"),
    "keys, unknown": _keys("x{}.pinfold.dev"),
    "keys, unknown and long": _keys("x" * 60 + "{}." + _NRI + "/pod"),
    "keys, unknown plain": _keys(_NRI + "/x{}"),
    "keys, unknown scope": _keys("smt." + _OWN + "/x{}"),
    "keys, reserved": _keys("pool-name." + _OWN + "/container.c{}"),
    "keys, containers": _keys("smt." + _OWN + "/container.c{}", "pack"),
    "keys, this container": _keys("memory-type." + _NRI + "/container.c{}", "dram"),
    "keys, nobody's": _keys("example{}.com/nri"),
    "keys, foreign": _keys("e{}.io/x"),
    "value, foreign": _value("example.com/x", "x" * _ROOM),
    "memory types": _pod_value("memory-type", "dram," * (_ROOM // 5) + "x"),
    "memory types, known": _pod_value("memory-type", "dram," * (_ROOM // 5) + "dram"),
    "memory types, one long": _pod_value("memory-type", "d" * _ROOM),
    "memory types, mixed": _pod_value("memory-type", "mixed," * (_ROOM // 6) + "mixed"),
    "class, long": _pod_value("rdtclass", "x" * _ROOM),
    "classes, all long": lambda: iter(
        [
            (f"{name}.{_NRI}/pod", "x" * (_ROOM // 5))
            for name in ("rdtclass", "blockioclass", "cpu-class", "scheduling-class")
        ]
    ),
    "boolean, blanks": _pod_value("hide-hyperthreads", " " * _ROOM),
    "duration, many parts": _pod_value("cold-start", "duration: " + "1ns" * (_ROOM // 3)),
    "duration, digits": _pod_value("cold-start", "duration: " + "1" * _ROOM),
    "interrupts": _pod_value("irq-affinity", "claim: [" + _names("a{}", ",") + "]"),
    "interrupts, class globs": _pod_value(
        "irq-affinity", "claim: [" + ", ".join(["'" + "[a-z]" * 100 + "'"] * 250) + "]"
    ),
    "paths, class globs": _pod_value(
        "deny.topologyhints",
        "type: glob\npaths: [" + ", ".join(["'/" + "[a-z]" * 100 + "'"] * 250) + "]",
    ),
    "paths, star globs": _pod_value(
        "deny.topologyhints", "type: glob\npaths: [" + _names("'/*{}*'", ", ") + "]"
    ),
    "paths, prefixes": _pod_value(
        "deny.topologyhints", "type: prefix\npaths: [" + _names("/x{}", ",") + "]"
    ),
    "yaml, flow list": _value(f"{_NRI}/affinity", "c: [" + "a," * (_ROOM // 2) + "]"),
    "yaml, flow mapping": _value(f"{_NRI}/affinity", "{" + _names("c{}", ",") + "}"),
    "yaml, block mapping": _value(f"{_NRI}/affinity", _names("c{}:", "\n")),
    "yaml, deep": _value(f"{_NRI}/affinity", "[" * _ROOM),
    "yaml, deep block": _value(f"{_NRI}/affinity", "- " * (_ROOM // 2)),
    "yaml, documents": _value(f"{_NRI}/affinity", "---\n" * (_ROOM // 4)),
    "yaml, directives": _value(
        f"{_NRI}/affinity", "".join(f"%TAG !a{one}! x\n" for one in range(16_000)) + "--- a"
    ),
    "yaml, aliases": _value(
        f"{_NRI}/affinity",
        "a0: &a0 [x, x]\n"
        + "".join(f"a{one}: &a{one} [*a{one - 1}, *a{one - 1}]\n" for one in range(1, 9000)),
    ),
    "yaml, comments": _value(f"{_NRI}/affinity", "#a\n" * (_ROOM // 3)),
    "yaml, one word": _value(f"{_NRI}/affinity", "a" * _ROOM),
    "yaml, quotes": _value(f"{_NRI}/affinity", "'" + "''" * (_ROOM // 2) + "'"),
    "yaml, 64 KiB flow list": _value(f"{_NRI}/affinity", "c: [" + "a," * 32_000 + "]"),
    "yaml, 64 KiB block mapping": _value(
        f"{_NRI}/affinity", "".join(f"c{one}:\n" for one in range(8100))
    ),
    "yaml, 64 KiB quoted": _value(f"{_NRI}/affinity", "c: [" + "'',\n" * 16_000 + "]"),
    "yaml, in every older key": _map_styles,
    "yaml, in a few older keys": lambda: iter(
        [
            (f"{domain}/{name}", "{" + ",".join(f"c{one}: x" for one in range(4000)) + "}")
            for domain in (_NRI, _CRI)
            for name in ("memory-type", "rdtclass", "blockioclass")
        ]
    ),
    "rules, 256": _value(f"{_NRI}/affinity", "c:\n" + _RULE * 256),
    "rules, of 256 containers": _value(
        f"{_NRI}/affinity", "".join(f"c{one}:\n{_RULE}" for one in range(256))
    ),
    "rules, unknown fields": _value(
        f"{_NRI}/affinity", "c:\n" + "- {matches: {}}\n" * (_ROOM // 16)
    ),
    "rules, 60 KiB of unknown fields": _value(
        f"{_NRI}/affinity", "c:\n" + "- {matches: x}\n" * 4000
    ),
    "rules, friends": _value(f"{_NRI}/affinity", "c: [" + _names("f{}", ",") + "]"),
    "rules, everybody friends": _value(
        f"{_NRI}/affinity", "".join(f"c{one}: [{_names('f{}', ',')[:900]}]\n" for one in range(60))
    ),
    "rules, globs": _value(f"{_NRI}/affinity", "c:\n" + _GLOB_RULE.format(_globs(240)) * 30),
    "resources, entries": _value(_RESOURCES, _resource_entries()),
    "resources, deep": _value(_RESOURCES, "[" * _ROOM),
    "resources, digits": _value(_RESOURCES, '{"containers": ' + "1" * _ROOM + "}"),
    "resources, escapes": _value(_RESOURCES, '{"containers": "' + "\\u0041" * (_ROOM // 7) + '"}'),
    "resources, amounts": _value(
        _RESOURCES,
        '{"containers": {"c": {"limits": {'
        + ", ".join(f'"hugepages-{one}Mi": "1Ei"' for one in range(1, 8000))
        + "}}}}",
    ),
    "at the limit, full rules": _value(f"{_NRI}/affinity", "c:\n" + _RULE * 186),
    "at the limit, 256 rules": _value(f"{_NRI}/affinity", "c:\n" + _SHORT_RULE * 256),
    "at the limit, two annotations": lambda: iter(
        [
            (f"{_NRI}/affinity", "c:\n" + _RULE * 92),
            (f"{_NRI}/anti-affinity", "c:\n" + _RULE * 92),
        ]
    ),
    "at the limit, flow list": _value(f"{_NRI}/affinity", "c: [" + "a," * 4080 + "]"),
    "at the limit, values left out": _value(
        f"{_NRI}/affinity", "{" + ",".join(f"c{one}" for one in range(4000)) + "}"
    ),
    "at the limit, containers": _value(
        f"{_NRI}/affinity", "".join(f"c{one}:\n" for one in range(2040))
    ),
    "at the limit, faulty rules": _value(
        f"{_NRI}/affinity", "c:\n" + "".join(f"- {{macth{one}: x}}\n" for one in range(1000))
    ),
    "at the limit, friends": _value(
        f"{_NRI}/affinity", "".join(f"c{one}: [a, b, c, d, e, f]\n" for one in range(250))
    ),
    "at the limit, older keys": lambda: iter(
        [
            (f"{domain}/{name}", "".join(f"c{one}: x\n" for one in range(330)))
            for domain in (_NRI, _CRI)
            for name in ("memory-type", "rdtclass", "blockioclass")
        ]
    ),
    "at the limit, unknown keys": lambda: (
        (f"memory-tpe{one}.{_NRI}/container.c", "dram") for one in range(512)
    ),
    "at the limit, near domains": lambda: (
        (f"memory-type.resource-polcy{one}.nri.io/pod", "dram") for one in range(512)
    ),
    "at the limit, one long word": _value(f"{_NRI}/affinity", "c: [" + "a" * 65_000 + "]"),
    "at the limit, unicode": _value(f"{_NRI}/affinity", "c: [" + "\U0001f600" * 60_000 + "]"),
    "at the limit, hints": _pod_value("topologyhints", ",".join(f"x{one}" for one in range(200))),
    "at the limit, no hints": _pod_value("topologyhints", "," * 1000),
    "at the limit, memory types": _pod_value("memory-type", "mixed," * 160 + "x"),
    "at the limit, interrupts": _pod_value(
        "irq-affinity", "mask: [" + ",".join(f"'*{one}a*'" for one in range(440)) + "]"
    ),
    "at the limit, globs of interrupts": _pod_value(
        "irq-affinity",
        "mask: [" + ",".join(f"'[a-z]*[0-9]*{one}?'" for one in range(160)) + "]",
    ),
    "at the limit, class globs": _pod_value(
        "irq-affinity", "mask: [" + ",".join(["'" + "[a-z]" * 100 + "'"] * 7) + "]"
    ),
    "at the limit, paths": _pod_value(
        "deny.topologyhints",
        "type: glob\npaths: [" + ",".join(f"'*{one}*/*'" for one in range(360)) + "]",
    ),
    "at the limit, resources": _value(
        _RESOURCES, '{"containers": {"c": [' + ",".join(["{}"] * 21_000) + "]}}"
    ),
    "at the limit, test hints": _pod_value(
        "test.topologyhints", "".join(f"h{one}: {{CPUs: '0-81:1/2'}}\n" for one in range(800))
    ),
    "at the limit, terms": _own_terms(
        "labelSelector: {matchLabels: {" + ",".join(f"k{one}: v" for one in range(16)) + "}}", 64
    ),
    "at the limit, faulty terms": _own_terms("labelSelectorr: {}", 250),
    "at the limit, terms about nobody": _own_terms("scope: null", 300),
    "at the limit, terms with near pseudo-labels": _own_terms(
        "labelSelector: {matchLabels: {"
        + ",".join(f"pod.{'nameqosuid' * 3}{one}: v" for one in range(16))
        + "}}",
        64,
    ),
    "at the limit, terms with label keys": _own_terms(
        "labelSelector: {}, matchLabelKeys: [" + ",".join(f"l{one}" for one in range(30)) + "]", 64
    ),
    "at the limit, terms with selected namespaces": _own_terms(
        "labelSelector: {}, namespaceSelector: {matchExpressions: ["
        + ",".join(f"{{key: tier{one}, operator: Exists}}" for one in range(5))
        + "]}",
        60,
    ),
    "at the limit, one term of many words": _own_terms(
        "labelSelector: {matchExpressions: [{key: a, operator: In, values: ["
        + ",".join(f"v{one}" for one in range(2700))
        + "]}]}",
        1,
    ),
    "at the limit, pool terms": _pod_value(
        "affinity",
        "poolAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["
        + ",".join(['{matchExpressions: [{key: cpus, operator: Gt, values: ["1"]}]}'] * 64)
        + "]}}",
        _OWN,
    ),
    "at the limit, unknown kinds of rules": _pod_value(
        "affinity", "".join(f"podAffinit{one}: 1\n" for one in range(1300)), _OWN
    ),
    "at the limit, pool selector": _pod_value(
        "pool-selector", ",".join(f"k{one}=v" for one in range(150)), _OWN
    ),
    "test hints": _pod_value(
        "test.topologyhints", "".join(f"h{one}: {{CPUs: '0-8191:1/2'}}\n" for one in range(8000))
    ),
}

"""Random small machines, and random pods with rules between them."""

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from pinfold.policy.model.container import Container
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet
from tests.property.plain_reading import LEVELS, WrittenPod, WrittenRule
from tests.unit.policy.engine.ruled_pods import IGNORED, LASTING, PREFERRED, container_of
from tests.unit.topology.model.offline import without

CPUS_MIN, CPUS_MAX = 4, 20
NAMESPACES: Mapping[str, Mapping[str, str]] = {"red": {"tier": "gold"}, "blue": {"tier": "iron"}}
APPS = ("a", "b", "c")
_COUNTS = (
    ("socket", (1, 1, 2)),
    ("die", (0, 0, 0, 2)),
    ("numa", (0, 1, 2, 3)),
    ("l3", (0, 0, 2, 3)),
    ("cluster", (0, 0, 2, 3)),
    ("core", (1, 2, 3, 4)),
    ("thread", (1, 2)),
)


def draw_machine(draw: random.Random) -> Machine:
    """A machine of few cpus: some of them offline, memory without cpus, L3 groups that nest not."""
    while True:
        counts = {key: draw.choice(numbers) for key, numbers in _COUNTS}
        total = 1
        for count in counts.values():
            total *= count or 1
        if CPUS_MIN <= total <= CPUS_MAX:
            break
    words = [f"{key}:{count}" for key, count in counts.items() if count]
    machine = machine_from_spec(" ".join((*words, "mem:4G")))
    if draw.random() < 0.2:
        machine = dataclasses.replace(machine, l3_groups=_runs(draw, machine.cores))
    if draw.random() < 0.1:
        machine = dataclasses.replace(machine, l3_groups=(), caches=())
    if draw.random() < 0.2:
        machine = _with_slow_memory(machine)
    if draw.random() < 0.3:
        gone = draw.sample(sorted(machine.online), draw.randint(1, total - CPUS_MIN + 1))
        machine = without(machine, CpuSet.collect(gone))
    return machine


def _runs(draw: random.Random, cores: Sequence[CpuSet]) -> tuple[CpuSet, ...]:
    """Cores that follow one another, together, wherever a NUMA node ends."""
    found: list[CpuSet] = []
    for core in cores:
        if found and draw.random() < 0.6:
            found[-1] |= core
        else:
            found.append(core)
    return tuple(found)


def _with_slow_memory(machine: Machine) -> Machine:
    count = len(machine.numa_nodes)
    rows = [(*row, 30) for row in machine.distances]
    slow = NumaNode(id=NumaNodeId(count), memory_bytes=2**30)
    return dataclasses.replace(
        machine,
        numa_nodes=(*machine.numa_nodes, slow),
        distances=(*rows, (*[30] * count, 10)),
    )


@dataclasses.dataclass(frozen=True)
class RuleOdds:
    """How many rules of each kind a pod has, each number as often as it is named."""

    anti_affinity: Sequence[int] = (0, 0, 1, 1, 2)
    affinity: Sequence[int] = (0, 0, 0, 1, 1, 2)
    spread: Sequence[int] = (0, 0, 1)
    preferred: Sequence[int] = (0, 0, 0, 1, 2)


FEW_RULES = RuleOdds()
MANY_RULES = RuleOdds(anti_affinity=(1, 2, 3), affinity=(0, 0, 1, 1), spread=(0, 0, 1))


@dataclasses.dataclass(frozen=True)
class PodOdds:
    """What the pods of one world are like."""

    rules: RuleOdds
    fails: float
    """The share of pods whose rules insist."""


def draw_odds(draw: random.Random) -> PodOdds:
    """Odds of a world: in some nobody insists, in some everybody does."""
    return PodOdds(draw.choice((FEW_RULES, MANY_RULES)), draw.choice((0.0, 0.5, 1.0)))


def draw_pod(
    draw: random.Random, number: int, milli: int, odds: PodOdds, *, shares: bool = False
) -> tuple[WrittenPod, Container]:
    """A pod of one container, as its author wrote it and as the runtime tells of it."""
    labels = {"app": draw.choice(APPS)}
    if draw.random() < 0.5:
        labels["tier"] = draw.choice("xy")
    if draw.random() < 0.5:
        labels["rev"] = draw.choice("12")
    namespace, fails = draw.choice(sorted(NAMESPACES)), draw.random() < odds.fails
    text, rules = _annotation(draw, odds.rules)
    container = container_of(
        f"p{number}",
        milli / 1000,
        fails=fails,
        namespace=namespace,
        labels=labels,
        shares=shares,
        annotations={"affinity.pinfold.dev/pod": text} if rules else None,
    )
    pseudo = {
        "container.name": "main",
        "pod.name": container.pod.name,
        "pod.qos": container.pod.qos.value,
        "pod.uid": container.pod.uid,
    }
    pod = WrittenPod(container.path, namespace, labels | pseudo, rules, fails, milli)
    return pod, container


def _annotation(draw: random.Random, odds: RuleOdds) -> tuple[str, tuple[WrittenRule, ...]]:
    """An annotation in which every rule has a line of its own, and these rules."""
    kinds: dict[str, dict[str, list[tuple[WrittenRule, Any]]]] = {}
    rules: list[WrittenRule] = []
    seen = set[str]()

    def add(kind: str, when: str, rule: WrittenRule, text: Any) -> None:
        if json.dumps([kind, rule.term], sort_keys=True) not in seen:
            seen.add(json.dumps([kind, rule.term], sort_keys=True))
            kinds.setdefault(kind, {}).setdefault(when, []).append((rule, text))

    for kind, count in (("anti-affinity", odds.anti_affinity), ("affinity", odds.affinity)):
        for _ in range(draw.choice(count)):
            term = draw_term(draw)
            when = draw.choice((IGNORED, LASTING))
            add(kind, when, WrittenRule(0, kind, term), term)
    for _ in range(draw.choice(odds.preferred)):
        kind, term, weight = draw.choice(("affinity", "anti-affinity")), draw_term(draw), 1
        weight = draw.randint(1, 100)
        text = {"weight": weight, "podAffinityTerm": term}
        add(kind, PREFERRED, WrittenRule(0, kind, term, weight), text)
    for _ in range(draw.choice(odds.spread)):
        term, is_wish = _draw_spread(draw)
        add("spread", "", WrittenRule(0, "spread", term, int(is_wish)), term)
    lines = ["{"]
    fields = {"anti-affinity": "podAntiAffinity", "affinity": "podAffinity"}
    for kind, parts in kinds.items():
        is_spread = kind == "spread"
        lines.append('"topologySpread": [' if is_spread else f'"{fields[kind]}": {{')
        for when, written in parts.items():
            lines += [] if is_spread else [f'"{when}": [']
            for rule, text in written:
                lines.append(json.dumps(text) + ",")
                rules.append(dataclasses.replace(rule, line=len(lines)))
            lines[-1] = lines[-1].removesuffix(",")
            lines += [] if is_spread else ["],"]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("]," if is_spread else "},")
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join((*lines, "}")), tuple(rules)


def draw_term(draw: random.Random) -> dict[str, Any]:
    """A term of affinity or anti-affinity."""
    selector = _draw_selector(draw)
    term = {"topologyKey": draw.choice(LEVELS), **_draw_scope(draw)}
    if selector is not None:
        term |= {"labelSelector": selector}
        if draw.random() < 0.2:
            term[draw.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
    return term


def _draw_spread(draw: random.Random) -> tuple[dict[str, Any], bool]:
    selector = _draw_selector(draw)
    found: dict[str, Any] = {"maxSkew": draw.choice((1, 2)), "topologyKey": draw.choice(LEVELS)}
    if selector is not None:
        found["labelSelector"] = selector
        if draw.random() < 0.2:
            found["matchLabelKeys"] = ["rev"]
    is_wish = draw.random() < 0.5
    if is_wish:
        found["whenUnsatisfiable"] = "ScheduleAnyway"
    elif draw.random() < 0.4:
        found["minDomains"] = draw.choice((1, 2, 5))
    return found, is_wish


def _draw_selector(draw: random.Random) -> dict[str, Any] | None:
    kind = draw.random()
    if kind < 0.08:
        return None
    if kind < 0.18:
        return {}
    if kind < 0.5:
        return {"matchLabels": {"app": draw.choice(APPS)}}
    if kind < 0.65:
        return _expression("tier", "NotIn", draw.choice("xy"))
    if kind < 0.8:
        return _expression("tier", draw.choice(("Exists", "DoesNotExist")))
    if kind < 0.85:
        return _expression("pod.name", "NotIn", f"p{draw.randint(1, 6)}")
    return {"matchLabels": {"app": draw.choice(APPS)}, **_expression("tier", "In", "x")}


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    one = {"key": key, "operator": operator, **({"values": [*values]} if values else {})}
    return {"matchExpressions": [one]}


def _draw_scope(draw: random.Random) -> dict[str, Any]:
    """The namespaces of a term."""
    name = {"kubernetes.io/metadata.name": draw.choice(sorted(NAMESPACES))}
    named: list[dict[str, Any]] = [
        {"namespaces": []},
        {"namespaces": [draw.choice(sorted(NAMESPACES))]},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"tier": "gold"}}},
        {"namespaceSelector": _expression("tier", "NotIn", "gold")},
        {"namespaces": ["red"], "namespaceSelector": {"matchLabels": name}},
    ]
    return draw.choice(named) if draw.random() < 0.5 else {}

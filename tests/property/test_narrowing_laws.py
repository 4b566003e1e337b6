"""The law of narrowing: to know early that nobody makes way changes no decision."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.openings import narrowing
from tests.unit.policy.engine.ruled_pods import (
    NODES,
    PREFERRED,
    apart,
    container_of,
    engine_of,
    term,
)

MACHINES: Mapping[str, tuple[str, str]] = {
    "two nodes in a socket": (NODES, "cpuset:0"),
    "isolated cpus": (f"{NODES} isolated:6-7", "cpuset:0"),
    "a node of reserved cpus": (NODES, "cpuset:0-3"),
    "one socket": ("socket:1 numa:4 core:2 mem:2G", "cpuset:3"),
}
"""Machines, and the reserved cpus of each."""
ROUNDS = 40
_POOLS = ("", "socket 0", "socket 1", "numa 0", "numa 1", "numa 2", "numa 3")
_ODD: Mapping[str, Mapping[str, Any]] = {
    "in a pen": {"annotations": {"pod-pool.pinfold.dev/pod": "true"}},
    "in a group": {"annotations": {"group.pinfold.dev/pod": "red"}},
    "on idle cpus, too": {"annotations": {"idle-cpus.pinfold.dev/pod": "numa"}},
    "of the system": {"namespace": "kube-system"},
    "insists": {"fails": True},
    "has a cpu": {"cpu": 1},
    "has a cpu, and shares some": {"cpu": 1.5, "is_guaranteed": True},
    "has a large share": {"cpu": 3, "shares": True},
}


def residents(draw: random.Random) -> Iterator[Container]:
    """Containers of some pools that keep apart from web at one level, few of them odd ones."""
    rules = apart(term(draw.choice(("numa", "numa", "numa", "core", "socket")), "web"))
    for pool in draw.sample(_POOLS, draw.randrange(3, 8)):
        kind, _, where = pool.partition(" ")
        wanted = [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in (("kind", kind), (kind, where))
        ]
        wish = [{"weight": 100, "preference": {"matchExpressions": wanted}}] if kind else []
        for number in range(draw.choice((1, 2, 5))):
            odd: Mapping[str, Any] = draw.choice([*_ODD.values()]) if draw.random() < 0.05 else {}
            own: dict[str, Any] = {"cpu": draw.choice((0, 0.01, 0.1)), **odd}
            own["rules"] = {**rules, "poolAffinity": {PREFERRED: wish}}
            own["labels"] = {"tier": draw.choice(("first", "second"))}
            yield container_of(f"{kind}{where}-{number}", **own)


def shunning(draw: random.Random) -> Mapping[str, Any]:
    """Rules of a newcomer that keeps apart from residents itself, or none."""
    tiers = {"matchLabels": {"tier": draw.choice(("first", "second"))}}
    some: Mapping[str, Any] = draw.choice(
        (
            {},
            {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
            {"labelSelector": tiers},
        )
    )
    return {"rules": apart(term(draw.choice(("numa", "numa", "core")), **some))} if some else {}


def decisions(machine: str) -> Iterator[tuple[object, ...]]:
    """What is decided about a node's containers, and about those that they keep apart from."""
    spec, reserved = MACHINES[machine]
    draw = random.Random(machine)
    for _ in range(ROUNDS):
        engine, there = engine_of(spec, reserved), list[Container]()
        webs = [
            container_of(
                f"web{one}",
                draw.choice((0, 0.1, 1, 2.5)),
                app="web",
                **draw.choice(({}, _ODD["in a pen"])),
                **shunning(draw),
            )
            for one in range(4)
        ]
        for one in (*residents(draw), *webs):
            if one in webs and draw.random() < 0.3:
                gone = there.pop(draw.randrange(len(there)))
                yield engine.remove(gone.id)
            found = engine.create(one)
            yield found.result, found.unmet, found.decided_by, found.pinning, found.changes
            if isinstance(found.result, Grant):
                there.append(one)
        yield tuple(engine.grants.items())
        engine.check()


@pytest.mark.parametrize("machine", MACHINES)
def test_nobody_makes_way_where_it_is_known_early_that_nobody_does(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: Callable[[Judgement, Books], int] = vars(narrowing)["never_left"]
    early = list[bool]()

    def noted(judgement: Judgement, books: Books) -> int:
        found = known(judgement, books)
        early.append(not books.domains.everything & ~found)
        return found

    monkeypatch.setattr(narrowing, "never_left", noted)
    found = list(decisions(machine))
    assert {*early} == {True, False}

    def unknown(_: Judgement, __: Books) -> int:
        return 0

    monkeypatch.setattr(narrowing, "never_left", unknown)
    assert list(decisions(machine)) == found

"""The law of uneven owners: what is told is the same as if all were looked at, each by itself."""

import random
from collections.abc import Callable, Iterable, Mapping
from operator import methodcaller
from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.policy.books.books import Books
from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.roster import Roster
from pinfold.policy.engine.unmet import unmet_rules
from pinfold.policy.engine.unmet.alike_owners import AlikeOwners
from pinfold.policy.engine.unmet.concerns import Concerns
from pinfold.policy.engine.unmet.uneven_owners import uneven_owners
from pinfold.policy.model.container import Container, ContainerId
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, term

MACHINE = "socket:1 numa:3 core:8 mem:32G"
CROWD = 75
"""More than are watched one by one."""
STEPS = 200


def everybody(
    newest: ContainerId, concerns: Concerns, books: Books, roster: Roster
) -> Iterable[ContainerId]:
    """All owners of rules that count a newcomer."""
    owners = filter(None, map(roster.containers.get, concerns.ids))
    return list(books.standing.spreads.counting(roster.containers[newest], owners))


def rules(draw: random.Random) -> Mapping[str, Any] | None:
    def even(level: str, most: int) -> dict[str, Any]:
        return {**term(level, "web"), "maxSkew": most}

    skew = draw.choice((1, 2, 6))
    return draw.choice(
        (
            None,
            None,
            {"topologySpread": [even("numa", 1)]},
            {"topologySpread": [even("numa", 1)]},
            {"topologySpread": [even("numa", skew)]},
            {"topologySpread": [even("numa", skew), even("core", 1)]},
            {"topologySpread": [even("numa", skew)], **apart(term("numa", "db"))},
        )
    )


def newcomer(number: int, draw: random.Random) -> Container:
    node = draw.choice(("", "", 0, 0, 0, 0, 1, 2))
    at = {"pool-name.pinfold.dev/pod": f"NUMA node #{node}"} if node != "" else {}
    cpu = 1 if draw.random() < 0.05 else 0.01
    app = draw.choice(("web", "web", "web", "db"))
    return container_of(f"c{number}", cpu, rules(draw), app=app, annotations=at)


@pytest.mark.parametrize("seed", range(4))
def test_owners_that_are_not_looked_at_are_told_what_they_would_be(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    repeats = list[bool]()

    def repeat(alike: AlikeOwners, decision: Decision) -> bool:
        repeats.append(told_as_another(alike, decision))
        return repeats[-1]

    def look(_alike: AlikeOwners, _decision: Decision) -> bool:
        return False

    told_as_another = AlikeOwners.repeat
    ways = (uneven_owners, repeat), (everybody, look)
    engines = [(engine_of(MACHINE, "cpuset:0"), *way) for way in ways]
    alive = list[Container]()

    def change(event: Callable[[Engine], object]) -> None:
        for engine, looked_at, repeated in engines:
            monkeypatch.setattr(unmet_rules, "uneven_owners", looked_at)
            monkeypatch.setattr(AlikeOwners, "repeat", repeated)
            event(engine)
            while engine.compact(ContainerId("")):
                pass

    told = 0
    for number in range(CROWD + STEPS):
        event = draw.random()
        if number < CROWD or event < 0.55:
            new = newcomer(number, draw)
            alive.append(new)
            change(methodcaller("create", new))
        elif event < 0.9:
            gone = alive.pop(draw.randrange(len(alive)))
            change(methodcaller("remove", gone.id))
        else:
            some = draw.choice(alive)
            more = replace(some.resources, cpu_request_milli=draw.choice((10, 500, 1000)))
            change(methodcaller("update", some.id, more))
        first, second = [
            {one: decision.unmet for one, decision in engine.decisions.items()}
            for engine, *_ in engines
        ]
        assert first == second
        told += sum(map(bool, first.values()))
    assert told > STEPS
    assert any(repeats)

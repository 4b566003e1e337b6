"""What a newcomer costs in a crowd whose rules forbid, want and spread each other, in calls.

How long anything takes is nobody's concern here: see `tests/bench/hostile_crowds.py`.
"""

import random
from collections.abc import Sequence
from functools import cache, partial

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Refusal
from pinfold.topology.made.spec import machine_from_spec
from tests.bench.hostile_crowds import newcomers
from tests.unit.counted_calls import count_calls

_MACHINE = "socket:1 numa:4 core:8 thread:2 mem:16G"
_FULL = 60
_EVENTS = 30
_CALLS_OF_REFUSALS_MAX = 29_000
_CALLS_OF_GRANTS_MAX = 311_000


def test_refusals_in_a_full_crowd_try_nothing_twice_and_nothing_in_vain() -> None:
    refused, _ = _calls()
    assert len(refused) == 5
    assert sum(refused) < _CALLS_OF_REFUSALS_MAX


def test_for_whom_nobody_can_make_room_not_everybody_in_the_way_is_asked() -> None:
    _, granted = _calls()
    assert len(granted) == 85
    assert sum(granted) < _CALLS_OF_GRANTS_MAX


@cache
def _calls() -> tuple[Sequence[int], Sequence[int]]:
    """The calls of each refusal and of each grant while a crowd comes, and then some for others."""
    engine, chance = Engine(machine_from_spec(_MACHINE), Config()), random.Random(1)
    here, refused, granted = list[ContainerId](), list[int](), list[int]()
    for number, container in enumerate(newcomers(chance, _FULL + _EVENTS)):
        if number >= _FULL:
            engine.remove(here.pop(chance.randrange(len(here))))
        calls = count_calls(partial(engine.create, container))
        if isinstance(engine.decisions[container.id].result, Refusal):
            engine.remove(container.id)
            refused.append(calls)
        else:
            here.append(container.id)
            engine.compact(container.id)
            granted.append(calls)
    return refused, granted

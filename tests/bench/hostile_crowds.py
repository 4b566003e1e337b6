"""Crowds of few workloads whose rules forbid, want and spread each other, by chance."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pinfold.cmd.daemon.garbage_collection import GarbageCollector
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Refusal
from tests.bench.hostile_terms import (
    LASTING,
    REQUIRED,
    Term,
    apart,
    near,
    preferred,
    text,
)
from tests.bench.sizes import Size
from tests.bench.timings import Timings

_APPS: Final = 4
_WORKLOADS: Final = 40
_LEVELS: Final = ("socket", "numa", "l3", "core")
_FIELDS: Final = (REQUIRED, LASTING)
_BYTES: Final = 4 << 20
_STAY_PERCENT: Final = 75
"""Of the newcomers so many make a crowd larger before anybody leaves it."""
_LIFE: Final = 100
"""Creations in one crowd; the next one begins on an empty machine."""


@dataclass(frozen=True, slots=True)
class _Workload:
    """What its replicas have in common."""

    app: str
    annotations: Mapping[str, str]
    cpu_milli: int


def time_crowds(size: Size, samples: int) -> Timings:
    """The time of `Engine.create` in crowds, refusals included; what comes later is not counted.

    A size's containers fill its machine; of the creations behind them so many are timed.
    """
    timings = Timings()
    garbage = GarbageCollector()
    garbage.start()
    try:
        for seed in range(-(-samples // _LIFE)):
            _live(size, random.Random(seed), min(_LIFE, samples - seed * _LIFE), timings)
            garbage.sweep()
    finally:
        garbage.stop()
    return timings


def _live(size: Size, chance: random.Random, samples: int, timings: Timings) -> None:
    engine, here = Engine(size.machine, Config()), list[ContainerId]()
    for number, container in enumerate(newcomers(chance, size.containers + samples)):
        if number >= size.containers or chance.randrange(100) >= _STAY_PERCENT:
            _let_leave(engine, chance, here)
        taken = timings if number >= size.containers else Timings()
        decision = taken.time(partial(engine.create, container))
        if isinstance(decision.result, Refusal):
            engine.remove(container.id)
            continue
        here.append(container.id)
        engine.note(container.id)
        while engine.compact(container.id):
            pass
        engine.prepare()


def _let_leave(engine: Engine, chance: random.Random, here: list[ContainerId]) -> None:
    if here:
        leaving = here.pop(chance.randrange(len(here)))
        engine.stop(leaving)
        engine.remove(leaving)


def newcomers(chance: random.Random, count: int) -> Iterator[Container]:
    """So many containers that come one by one: replicas of some workloads made by chance."""
    workloads = [_workload(chance) for _ in range(_WORKLOADS)]
    for number in range(count):
        one = chance.choice(workloads)
        is_exclusive = one.cpu_milli >= 1000
        pod = Pod(
            id=PodId(f"pod-{number}"),
            name=f"{one.app}-{number}",
            namespace="crowd",
            labels={"app": one.app},
            annotations=one.annotations,
            qos=QosClass.GUARANTEED if is_exclusive else QosClass.BURSTABLE,
        )
        resources = Resources(
            cpu_request_milli=one.cpu_milli,
            cpu_limit_milli=one.cpu_milli if is_exclusive else None,
            memory_request_bytes=_BYTES,
            memory_limit_bytes=_BYTES if is_exclusive else None,
        )
        yield Container(
            id=ContainerId(f"container-{number}"), name="main", pod=pod, resources=resources
        )


def _workload(chance: random.Random) -> _Workload:
    app = f"app-{chance.randrange(_APPS)}"
    milli = chance.choice((100, 500, 1000, 1000, 2000, 3000))
    rules = [make(chance) for make in (_apart, _near, _spread) if chance.randrange(2)]
    return _Workload(app, text(*rules) if rules else {}, milli)


def _apart(chance: random.Random) -> Term:
    some = _terms(chance)
    return (
        apart(some, chance.choice(_FIELDS))
        if chance.randrange(3)
        else preferred(some, is_anti=True)
    )


def _near(chance: random.Random) -> Term:
    some = _terms(chance)
    return near(some, chance.choice(_FIELDS)) if chance.randrange(3) else preferred(some)


def _spread(chance: random.Random) -> Term:
    constraint = {
        "maxSkew": chance.randint(1, 3),
        "topologyKey": chance.choice(_LEVELS),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(chance),
    }
    return {"topologySpread": [constraint]}


def _terms(chance: random.Random) -> list[Term]:
    count = chance.choice((1, 1, 2, 5))
    return [
        {"topologyKey": chance.choice(_LEVELS), "labelSelector": _selector(chance)}
        for _ in range(count)
    ]


def _selector(chance: random.Random) -> dict[str, Any]:
    """About one workload, about all but one, or about everybody."""
    app, draw = f"app-{chance.randrange(_APPS)}", chance.randrange(6)
    if not draw:
        return {}
    if draw == 1:
        return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}
    return {"matchLabels": {"app": app}}

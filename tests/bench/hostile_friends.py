"""`python -m tests.bench.hostile_friends [GLOB..]`: rules about very many, by what they ask for.

The largest machine is full of containers that have no rules; then a pod comes whose rules are about
all or a third of them, at a level of few cpus: most of those can be met nowhere, and degrade. What
counts is all that the policy does for it: while it comes, after the answer, and as it leaves.
"""

import argparse
import gc
import time
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from typing import Final

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from tests.bench.hostile_terms import Term, apart, near, preferred, text
from tests.bench.sizes import LARGE
from tests.bench.timings import Timings, percentile_ms

_LEVELS: Final = ("core", "l3", "numa")
_FRIENDS: Final[Mapping[str, tuple[int, ...]]] = {
    "shares": (100,),
    "cpus of their own": (1000,),
    "of all kinds": (0, 100, 1000, 2500),
    "the whole machine": (2700,),
}
"""What friends ask for in turn, in milli-cpus; whole cpus are their own."""
_NEWCOMERS: Final = (0, 500, 2000, 3000, 17_000)
_ROW: Final = "{:<20}{:<6}{:<25}{:>7}{:>9}{:>9}{:>9}{:>9}{:>7}"


def _about(level: str, **labels: str) -> Term:
    return {"topologyKey": level, "labelSelector": {"matchLabels": labels}}


def _rules(level: str) -> Mapping[str, Mapping[str, str]]:
    """Annotations by what they ask for."""
    everybody = _about(level, app="friend")
    thirds = [_about(level, third=str(one)) for one in range(3)]
    levels = "numa", *_LEVELS, level
    all_levels = [_about(one, third=str(n % 3)) for n, one in enumerate(levels)]
    several = [_about(one, seventh=str(n)) for n, one in enumerate(levels)]
    fails = {"on-unsatisfiable.pinfold.dev/pod": "fail"}
    return {
        "beside": text(near([everybody])),
        "beside, or fails": {**text(near([everybody])), **fails},
        "beside several": text(near([everybody, *thirds])),
        "apart": text(apart([everybody])),
        "beside and apart": text(near([everybody]), apart(thirds[:1])),
        "several of both": text(near([everybody, *thirds]), apart([everybody, *thirds])),
        "beside, and better so": text(preferred(thirds), near([everybody])),
        "beside, rather elsewhere": text(preferred(thirds, is_anti=True), near([everybody])),
        "of many, and better so": text(preferred(several[:3]), near([everybody, *several])),
        "apart from many": text(preferred(several[3:]), apart([*thirds, *several])),
        "of all levels": text(near(all_levels), apart([_about("l3", third="2")])),
    }


def _container(name: str, milli: int, labels: Mapping[str, str], **more: str) -> Container:
    is_own = milli > 0 and milli % 1000 == 0
    qos = QosClass.GUARANTEED if is_own else QosClass.BURSTABLE
    return Container(
        id=ContainerId(name),
        name="c",
        pod=Pod(
            id=PodId(name),
            uid=name,
            name=name,
            qos=qos if milli else QosClass.BEST_EFFORT,
            labels=labels,
            annotations=more,
        ),
        resources=Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli if is_own else None,
            memory_request_bytes=(1 << 20) if milli else 0,
            memory_limit_bytes=(1 << 20) if is_own else None,
        ),
    )


def _after(engine: Engine, container_id: ContainerId) -> None:
    """What is done when nobody waits."""
    engine.note(container_id)
    engine.compact(container_id)
    engine.prepare()


def _leave(engine: Engine, container_id: ContainerId) -> None:
    engine.stop(container_id)
    engine.remove(container_id)


def _crowd(millis: tuple[int, ...], friends: int) -> Engine:
    engine = Engine(LARGE.machine, Config())
    for number in range(friends):
        labels = {"app": "friend", "third": str(number % 3), "seventh": str(number % 7)}
        friend = _container(f"friend-{number}", millis[number % len(millis)], labels)
        engine.create(friend)
        _after(engine, friend.id)
    return engine


def _time(engine: Engine, milli: int, rules: Mapping[str, str], samples: int) -> str:
    coming, after, leaving = (Timings(time.thread_time_ns) for _ in range(3))
    unmet = 0
    for number in range(samples):
        # Another pod each time: one that restarts finds its place again.
        newcomer = _container(f"newcomer-{time.monotonic_ns()}-{number}", milli, {}, **rules)
        unmet = len(coming.time(partial(engine.create, newcomer)).unmet)
        after.time(partial(_after, engine, newcomer.id))
        leaving.time(partial(_leave, engine, newcomer.id))
        engine.prepare()
    cells = [f"{percentile_ms(one.cpu, 50):.1f}" for one in (coming, after, leaving)]
    return "".join(f"{cell:>9}" for cell in cells) + f"{max(coming.cpu) / 1e6:>9.1f}{unmet:>7}"


def main(arguments: Iterable[str] | None = None) -> None:
    """Print a row for each kind of friends, level, rules and size of a newcomer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("globs", nargs="*", default=["*"], metavar="GLOB")
    parser.add_argument("--friends", type=int, default=1500)
    parser.add_argument("--samples", type=int, default=3)
    chosen = parser.parse_args(arguments if arguments is None else list(arguments))
    heads = "milli", "create", "after", "leave", "max", "unmet"
    print(_ROW.format("cpu ms; friends", "level", "rules", *heads))
    gc.disable()
    for kind, millis in _FRIENDS.items():
        engine = _crowd(millis, chosen.friends)
        for level, (name, milli) in product(_LEVELS, product(_rules("core"), _NEWCOMERS)):
            if any(fnmatchcase(f"{kind}, {level}, {name}", glob) for glob in chosen.globs):
                cells = _time(engine, milli, _rules(level)[name], chosen.samples)
                print(f"{kind:<20}{level:<6}{name:<25}{milli:>7}{cells}", flush=True)


if __name__ == "__main__":
    main()

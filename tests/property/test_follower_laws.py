"""Laws of followers: who must be with a database makes way for it, and stays with it."""

from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Refusal
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, near, term

MACHINE: Final = "numa:2 core:4 thread:2 mem:4G"
NODE_CPUS: Final = 8
CORE_CPUS: Final = 2
WITH_DATABASE: Final = near(term("numa", "db"))
RULES: Final = {
    "db": None,
    "follower": WITH_DATABASE,
    "apart": WITH_DATABASE | apart(term("core", "db")),
    "stranger": apart(term("core", "follower"), term("core", "apart")),
    "other": None,
}
"""By the kind of a pod, which is its label, too."""


@st.composite
def arrivals(draw: st.DrawFn, number: int) -> Container:
    """A pod that insists on its rules; one that shares may be in any pool, or in a NUMA node."""
    kind = draw(st.sampled_from(("db", "follower", "apart", "apart", "stranger", "other")))
    width = draw(st.sampled_from(("numa", "system")))
    return container_of(
        f"{kind}-{number}",
        draw(st.sampled_from((0.1, 0.5, 1, 2, 3, 4))),
        RULES[kind],
        app=kind,
        fails=True,
        shares=draw(st.booleans()),
        annotations={"unlimited-burstable.resource-policy.nri.io/pod": width},
    )


def told(engine: Engine, running: Sequence[Container]) -> Mapping[str, set[int]]:
    """The cpus that the kernel is told for each."""
    found: dict[str, set[int]] = {}
    for one in running:
        pinning = engine.pinning(one.id)
        assert pinning is not None, one.path
        assert pinning.cpus, one.path
        found[one.path] = set(pinning.cpus)
    return found


def broken(engine: Engine, running: Sequence[Container]) -> set[str]:
    """What does not hold between followers and databases."""
    cpus = told(engine, running)
    taken = {cpu for one in running if _kind(one) == "db" for cpu in cpus[one.path]}
    nodes, cores = ({cpu // size for cpu in taken} for size in (NODE_CPUS, CORE_CPUS))
    found: set[str] = set()
    for one in running:
        here = cpus[one.path]
        if _kind(one) in ("follower", "apart") and not {cpu // NODE_CPUS for cpu in here} <= nodes:
            found.add(f"{one.path} is not with a database")
        if _kind(one) == "apart" and cores & {cpu // CORE_CPUS for cpu in here}:
            found.add(f"{one.path} is on a core of a database")
    return found


def _kind(one: Container) -> str:
    return one.pod.labels["app"]


@given(st.lists(st.booleans(), min_size=3, max_size=16), st.data())
def test_what_a_follower_insists_on_holds_whoever_comes(
    leaves: list[bool], data: st.DataObject
) -> None:
    """`leaves`: whether somebody does before each arrival."""
    engine, running = engine_of(MACHINE), list[Container]()
    for number, is_left in enumerate(leaves):
        if is_left and running:
            gone = running.pop(data.draw(st.integers(0, len(running) - 1)))
            engine.stop(gone.id)
            engine.remove(gone.id)
        newcomer, before = data.draw(arrivals(number)), broken(engine, running)
        if isinstance(engine.create(newcomer).result, Refusal):
            engine.remove(newcomer.id)
        else:
            running.append(newcomer)
        engine.check()
        after = broken(engine, running)
        assert after <= before, f"{newcomer.path} breaks {after - before}"

"""Parts of pools that rules leave are held against a request together, as far as numbers tell."""

from collections import Counter

from msgspec.structs import replace

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from tests.unit.counted_calls import called_modules
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    apart,
    container_of,
    engine_of,
    placed,
    term,
)

_NODES = 12
_WITH_FRIEND = {"podAffinity": {LASTING: [term("socket", "friend")]}}


def _beside_a_friend(load_cpu: float) -> Engine:
    """A socket of many NUMA nodes, a narrowed share on it, and a share for each node."""
    engine = engine_of(f"socket:2 numa:{_NODES} core:4 thread:2 mem:4G")
    placed(engine, container_of("friend", 0.5))
    placed(engine, container_of("quiet", 0.5, {**_WITH_FRIEND, **apart(term("core", "noisy"))}))
    placed(engine, container_of("noisy", 1))
    for number in range(2 * _NODES if load_cpu else 0):
        load = container_of(f"load{number}", load_cpu)
        limit = load.resources.cpu_request_milli
        placed(engine, replace(load, resources=replace(load.resources, cpu_limit_milli=limit)))
    return engine


def _calls(engine: Engine, newcomer: Container) -> Counter[str]:
    """The calls by the last part of the module's name."""
    called = called_modules(lambda: placed(engine, newcomer))
    return Counter(one.rpartition(".")[2] for one in called)


def test_who_prefers_isolated_cpus_looks_at_no_part_where_there_are_none() -> None:
    calls = _calls(_beside_a_friend(0), container_of("newcomer", 1, _WITH_FRIEND))
    assert calls["own_cpus"] < _NODES


def test_nothing_is_shifted_for_pools_that_lack_what_is_asked_for_by_their_own_numbers() -> None:
    engine = _beside_a_friend(6.5)
    calls = _calls(engine, container_of("newcomer", 2, _WITH_FRIEND))
    assert calls["own_cpus"] < _NODES

"""Rules of more residents than are counted one by one: who is told of a newcomer that breaks them.

How long anything takes is nobody's concern here: see `tests/bench`.
"""

import gc
from functools import partial

import pytest

from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container
from pinfold.policy.model.grant import Grant
from pinfold.policy.placing.judging.judgement import OWNERS_MAX
from pinfold.policy.placing.judging.restriction import TOLD_MAX, Restriction
from tests.unit.counted_calls import count_calls
from tests.unit.policy.engine.ruled_pods import apart, container_of, engine_of, term

COUNTS = [
    pytest.param(TOLD_MAX + 4, id="more than a decision tells"),
    pytest.param(OWNERS_MAX + 4, id="more than are counted one by one"),
    pytest.param(300, id="more than are worded at once"),
]
_TURNS = 30


def pool(number: int) -> dict[str, str]:
    return {"pool-name.pinfold.dev/pod": f"NUMA node #{number}"}


def crowd(count: int, *, nodes: int = 1) -> tuple[Engine, list[Container]]:
    """So many containers that keep apart from web, on NUMA nodes in turn."""
    engine = engine_of(f"socket:1 numa:{nodes} core:8 mem:16G")
    owners: list[Container] = []
    for number in range(count):
        told = pool(number % nodes) if nodes > 1 else {}
        rules = apart(term("numa", "web"))
        owner = container_of(f"owner{number}", 0.001, rules, annotations=told)
        assert isinstance(engine.create(owner).result, Grant)
        owners.append(owner)
    return engine, owners


def come(engine: Engine, name: str = "web") -> Container:
    web = container_of(name, 0.1, app="web")
    assert isinstance(engine.create(web).result, Grant)
    return web


def tidy(engine: Engine, web: Container) -> None:
    for _ in range(_TURNS):
        engine.compact(web.id)


def told(engine: Engine, containers: list[Container], of: Container) -> list[str]:
    """The pods in whose decisions stands that a container is beside them."""
    return [
        one.pod.name
        for one in containers
        if any(
            of.path in text.rpartition(" with ")[2].split(", ")
            for text in engine.decisions[one.id].unmet
        )
    ]


def named(engine: Engine, web: Container) -> list[str]:
    """The pods whose rules are told in the decision of a newcomer."""
    texts = engine.decisions[web.id].unmet
    found = [text.rpartition(" with ")[2].split("/")[1] for text in texts]
    assert all(f" of default/{one}/main: " in text for one, text in zip(found, texts, strict=True))
    return found


def kept_rules() -> int:
    """How many rules are remembered as broken, by anybody."""
    gc.collect()
    return sum(isinstance(one, Restriction) for one in gc.get_objects())


@pytest.mark.parametrize("count", COUNTS)
def test_the_first_owners_are_named_at_once_and_all_are_told_by_and_by(count: int) -> None:
    engine, owners = crowd(count)
    web = come(engine)
    first = [one.pod.name for one in owners[:TOLD_MAX]]
    assert named(engine, web) == first
    assert told(engine, owners, web)[:TOLD_MAX] == first
    tidy(engine, web)
    assert told(engine, owners, web) == [one.pod.name for one in owners]
    assert named(engine, web) == first


@pytest.mark.parametrize("count", COUNTS)
def test_others_are_named_as_the_first_owners_go(count: int) -> None:
    engine, owners = crowd(count)
    web = come(engine)
    tidy(engine, web)
    while owners:
        engine.stop(owners.pop(0).id)
        tidy(engine, web)
        assert named(engine, web) == [one.pod.name for one in owners[:TOLD_MAX]]


@pytest.mark.parametrize("count", COUNTS)
def test_owners_are_told_no_more_once_the_newcomer_is_gone(count: int) -> None:
    engine, owners = crowd(count)
    web = come(engine)
    tidy(engine, web)
    engine.remove(web.id)
    tidy(engine, web)
    assert not any(engine.decisions[one.id].unmet for one in owners)


def test_a_newcomer_that_goes_before_all_are_told_is_told_to_nobody_more() -> None:
    engine, owners = crowd(300)
    web = come(engine)
    engine.remove(web.id)
    tidy(engine, web)
    assert not any(engine.decisions[one.id].unmet for one in owners)


def test_one_owner_less_is_no_reason_to_tell_of_nobody_in_a_crowd_with_two_newcomers() -> None:
    engine, owners = crowd(60)
    webs = [come(engine, "web0"), come(engine, "web1")]
    engine.stop(owners.pop(0).id)
    tidy(engine, webs[0])
    for web in webs:
        assert named(engine, web) == [one.pod.name for one in owners[:TOLD_MAX]]
        assert told(engine, owners, web) == [one.pod.name for one in owners]
    engine.remove(webs[0].id)
    tidy(engine, webs[1])
    assert told(engine, owners, webs[0]) == []
    assert told(engine, owners, webs[1]) == [one.pod.name for one in owners]


def test_others_are_named_where_all_that_were_go_before_anybody_looks_again() -> None:
    engine, owners = crowd(60)
    webs = [container_of(f"web{number}", 0.01, app="web") for number in range(80)]
    for web in webs:
        assert isinstance(engine.create(web).result, Grant)
    for _ in range(TOLD_MAX):
        engine.stop(owners.pop(0).id)
    for _ in range(_TURNS):
        tidy(engine, webs[0])
    expected = [one.pod.name for one in owners[:TOLD_MAX]]
    assert [named(engine, web) for web in webs] == [expected] * len(webs)


@pytest.mark.parametrize(
    "is_listed", [pytest.param(False, id="nobody runs any more"), pytest.param(True, id="replaced")]
)
def test_who_is_gone_without_a_stop_keeps_no_owner(*, is_listed: bool) -> None:
    before = kept_rules()
    engine, _ = crowd(OWNERS_MAX + 4)
    web = container_of("web", 0.1, app="web", instance="first")
    engine.create(web)
    assert kept_rules() > before
    if is_listed:
        engine.create(container_of("web", 0.1, instance="second"))
    else:
        engine.synchronize([])
    engine.compact(web.id)
    for one in tuple(engine.containers):
        engine.remove(one)
    assert kept_rules() == before


def test_owners_in_other_domains_are_not_told() -> None:
    engine, owners = crowd(2 * OWNERS_MAX, nodes=2)
    web = container_of("web", 0.1, app="web", annotations=pool(1))
    assert isinstance(engine.create(web).result, Grant)
    near = [one.pod.name for one in owners[1::2]]
    tidy(engine, web)
    assert named(engine, web) == near[:TOLD_MAX]
    assert told(engine, owners, web) == near


def test_owners_elsewhere_cost_the_event_no_call() -> None:
    found: list[int] = []
    for count in (200, 800):
        engine, _ = crowd(4, nodes=2)
        for number in range(count):
            far = container_of(
                f"far{number}", 0.001, apart(term("numa", "web")), annotations=pool(0)
            )
            assert isinstance(engine.create(far).result, Grant)
        webs = [container_of(f"web{n}", 0.1, app="web", annotations=pool(1)) for n in range(2)]
        engine.create(webs[0])
        tidy(engine, webs[0])
        found.append(count_calls(partial(engine.create, webs[1])))
        assert named(engine, webs[1]) == ["owner1", "owner3"]
    few, many = found
    assert many < 1.1 * few


def test_the_event_itself_costs_no_more_calls_for_more_owners() -> None:
    found: list[int] = []
    for count in (100, 800):
        engine, _ = crowd(count)
        come(engine, "first")
        web = container_of("web", 0.1, app="web")
        found.append(count_calls(partial(engine.create, web)))
    few, many = found
    assert many < 1.1 * few
    assert few < 1400


def test_of_more_than_are_told_one_by_one_those_alone_are_named_that_are_near() -> None:
    engine = engine_of("socket:1 numa:2 core:8 mem:16G")
    rules = apart(term("numa", "shard"))
    shards = [
        container_of(f"shard{number}", 0.1, rules, app="shard", annotations=pool(number % 2))
        for number in range(TOLD_MAX + 3)
    ]
    for shard in shards:
        assert isinstance(engine.create(shard).result, Grant)
    own = engine.decisions[shards[-1].id].unmet[0]
    others = "default/shard0/main, default/shard2/main, default/shard4/main, default/shard6/main"
    assert own.endswith(f": in one NUMA node with {others} and {TOLD_MAX // 2 + 1 - 4} more")

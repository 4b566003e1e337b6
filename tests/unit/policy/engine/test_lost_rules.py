"""Rules ignored during execution that stop holding: told of their owners, whoever moved."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, Pod, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.policy.engine.ruled_pods import (
    GIB,
    NODES,
    apart,
    container_of,
    cpus,
    engine_of,
    near,
    placed,
    term,
)
from tests.unit.policy.engine.test_penning import container as inside
from tests.unit.policy.engine.test_penning import pod as pod_of
from tests.unit.policy.engine.test_penning import whole
from tests.unit.topology.model.offline import without

MACHINE = machine_from_spec(NODES)
PARTNER = container_of("partner", 1)
OWNER = container_of("owner", 1, near(term("core", "partner")))


def together() -> Engine:
    """An owner beside its partner in one core."""
    engine = engine_of(MACHINE)
    assert [placed(engine, one) for one in (PARTNER, OWNER)] == ["4", "5"]
    assert not told(engine)
    return engine


def told(engine: Engine, owner: Container = OWNER) -> str:
    return "; ".join(engine.decisions[owner.id].unmet)


def with_cpus(engine: Engine, reserved: str, available: str = "0-15") -> Engine:
    """The engine under a configuration with other cpus."""
    cpu = {"reservedResources": reserved, "availableResources": available}
    values = {key: {"cpu": f"cpuset:{text}"} for key, text in cpu.items()}
    return engine.reconfigured(config_from_values(values))[0]


def without_cpus(engine: Engine, gone: str) -> Engine:
    return engine.reconfigured(engine.config, without(MACHINE, CpuSet.parse(gone)))[0]


def resize(engine: Engine, one: Container, milli: int) -> None:
    limit = None if one.resources.cpu_limit_milli is None else milli
    wanted = replace(one.resources, cpu_request_milli=milli, cpu_limit_milli=limit)
    assert isinstance(engine.update(one.id, wanted).result, Grant)
    engine.check()


def test_whose_partner_loses_its_cpu_as_that_goes_offline_tells_that() -> None:
    engine = without_cpus(together(), "4")
    assert [cpus(engine, one) for one in (PARTNER, OWNER)] == ["6", "5"]
    assert told(engine).startswith("affinity at core to app=partner")


@pytest.mark.parametrize(("reserved", "available"), [("4", "0-15"), ("0", "0-3,5-15")])
def test_whose_partner_loses_its_cpu_by_a_reload_tells_that(reserved: str, available: str) -> None:
    engine = with_cpus(together(), reserved, available)
    assert cpus(engine, PARTNER) not in ("4", "5")
    assert told(engine).startswith("affinity at core to app=partner")


def test_a_partner_that_stays_is_told_of_nowhere() -> None:
    assert not told(without_cpus(together(), "8-9"))
    assert not told(with_cpus(together(), "1"))


@pytest.mark.parametrize("gone", ["8", "6"])
def test_what_stopped_holding_as_its_partner_ended_goes_on_untold(gone: str) -> None:
    """Ignored means ignored: a reload by which nobody moves is no reason to tell it."""
    engine = together()
    engine.remove(PARTNER.id)
    assert not told(engine)
    assert not told(without_cpus(engine, gone))
    assert not told(with_cpus(engine, "1"))


def test_whose_partner_leaves_by_a_resize_tells_that_until_it_is_back() -> None:
    engine = engine_of("socket:2 core:4 mem:4G")
    partner = container_of("partner", 0.5, is_guaranteed=True)
    owner = container_of("owner", 1, near(term("socket", "partner")))
    filler = container_of("filler", 1, annotations={"pool-name.pinfold.dev/pod": "socket #1"})
    assert [placed(engine, one) for one in (partner, owner, filler)] == ["4-7", "4", "6"]
    resize(engine, partner, 3000)
    assert cpus(engine, partner) == "1-3"
    assert told(engine, owner).startswith("affinity at socket to app=partner")
    assert list(engine.lost_rules()) == [owner.id]
    assert not engine.lost_rules(), "each is told once"
    resize(engine, partner, 500)
    assert cpus(engine, partner) == "1-3,5,7"
    assert not told(engine, owner)


def test_who_grows_out_of_the_core_in_which_it_came_to_be_with_another_tells_that() -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G", "cpuset:0-1")
    filler, other = container_of("filler", 4), container_of("other", 0)
    owner = container_of("owner", 0.1, near(term("core", "other")))
    assert [placed(engine, one) for one in (filler, owner, other)] == ["2-5", "6-7", "6-7"]
    assert not told(engine, owner)
    engine.remove(filler.id)
    assert cpus(engine, owner) == "2-7"
    assert told(engine, owner).startswith("affinity at core to app=other")


@pytest.mark.parametrize("app", ["large", "small"])
def test_whose_partner_leaves_with_its_group_tells_that(app: str) -> None:
    """Of two that share their cpus one asks for fewer: whichever the owner wants with it."""
    engine = engine_of("socket:1 core:4 thread:2 mem:4G")
    group = {"group.pinfold.dev/pod": "front"}
    large = container_of("large", 3, annotations=group)
    small = container_of("small", 1, annotations=group)
    owner = container_of("owner", 1, near(term("core", app)))
    assert [placed(engine, one) for one in (large, small, owner)] == ["1-3", "1-4", "5"]
    assert not told(engine, owner)
    resize(engine, large, 1000)
    assert [cpus(engine, one) for one in (large, small, owner)] == ["2-3", "2-3", "5"]
    assert told(engine, owner).startswith(f"affinity at core to app={app}")
    assert list(engine.lost_rules()) == [owner.id]


def test_who_must_be_apart_from_one_on_reserved_cpus_keeps_off_those_that_a_reload_adds() -> None:
    engine = engine_of("socket:1 core:4 thread:2 mem:4G")
    one, other = container_of("one", 1), container_of("other", 1)
    system = container_of("system", 0.5, namespace="kube-system")
    alone = container_of("alone", 0.2, apart(term("core", "system", namespaces=["kube-system"])))
    found = [placed(engine, each) for each in (one, other, system, alone)]
    assert found == ["1", "2", "0", "3-7"]
    engine = with_cpus(engine, "0,3", "0-7")
    assert [cpus(engine, each) for each in (system, alone)] == ["0,3", "4-7"]
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, alone) == "4-7"


def even(level: str, app: str) -> dict[str, object]:
    """A rule by which one domain may hold one more than another."""
    return {"topologySpread": [{**term(level, app), "maxSkew": 1}]}


def test_whose_spread_gets_uneven_by_a_resize_of_another_tells_that_until_it_is_even() -> None:
    engine = engine_of("socket:2 core:5 mem:4G")
    there = {"pool-name.pinfold.dev/pod": "socket #1"}
    other = container_of("other", 0.5, app="web", is_guaranteed=True)
    owner = container_of("owner", 1, even("socket", "web"), app="web")
    filler = container_of("filler", 3, annotations=there)
    assert [placed(engine, one) for one in (other, owner, filler)] == ["5-9", "1", "5-7"]
    resize(engine, other, 3000)
    assert [cpus(engine, one) for one in (other, owner)] == ["2-4", "1"]
    assert told(engine, owner).startswith("spread over socket, at most 1 apart: app=web")
    assert list(engine.lost_rules()) == [owner.id]
    resize(engine, other, 500)
    assert cpus(engine, other) == "2-4,8-9"
    assert not told(engine, owner)


def test_a_spread_that_newcomers_made_uneven_goes_on_untold_as_others_move() -> None:
    """It is for the arrival of its owner; who comes later breaks it without a word."""
    engine = engine_of("socket:2 core:8 mem:4G")
    owner = container_of("owner", 1, even("socket", "web"), app="web")
    here = {"pool-name.pinfold.dev/pod": "socket #0"}
    assert placed(engine, owner) == "8"
    there = {"pool-name.pinfold.dev/pod": "socket #1"}
    late = [container_of(f"web{n}", 0.1, app="web", annotations=there) for n in range(2)]
    assert [placed(engine, one) for one in late] == ["9-15", "9-15"]
    assert placed(engine, container_of("filler", 1, annotations=here)) == "1"
    resize(engine, late[0], 500)
    assert not told(engine, owner)


def web_pod(size: Resources | None = None) -> Pod:
    """A pod whose containers are in one set of cpus, and that spread rules count."""
    pod = pod_of(size, wish="" if size else "pod-pool.pinfold.dev=true")
    return replace(pod, labels={"app": "web"})


def sharing(milli: int) -> Resources:
    return Resources(cpu_request_milli=milli, cpu_limit_milli=milli)


def beside_a_pen(pen: list[Container]) -> tuple[Engine, Container]:
    """The owner of a rule that counts those of a pen in one of three sockets, which is short."""
    engine = engine_of("socket:3 core:4 mem:4G")
    for one in pen:
        placed(engine, one)
    owner = container_of("owner", 1, even("socket", "web"), app="own")
    filler = container_of("filler", 4, annotations={"pool-name.pinfold.dev/pod": "socket #2"})
    placed(engine, owner)
    placed(engine, filler)
    assert not told(engine, owner)
    return engine, owner


def test_whose_spread_gets_uneven_as_a_pen_grows_for_one_in_it_tells_that() -> None:
    pod = web_pod()
    pen = [inside(pod, "own", whole(1, memory=GIB))]
    pen += [inside(pod, name, sharing(900)) for name in ("a", "b")]
    engine, owner = beside_a_pen(pen)
    assert isinstance(engine.update(pen[-1].id, sharing(3900)).result, Grant)
    engine.check()
    assert list(engine.lost_rules()) == [owner.id]
    assert told(engine, owner).startswith("spread over socket, at most 1 apart: app=web")


def test_whose_spread_gets_uneven_as_a_pod_grows_tells_that() -> None:
    pod = web_pod(whole(2, memory=GIB))
    engine, owner = beside_a_pen([inside(pod, name) for name in ("a", "b")])
    assert not isinstance(engine.resize_pod(pod, whole(5, memory=GIB)), Refusal)
    engine.check()
    assert list(engine.lost_rules()) == [owner.id]


def test_whose_spread_gets_uneven_as_others_leave_a_pen_fewer_cpus_tells_that() -> None:
    pod = web_pod()
    engine = engine_of("socket:3 core:4 mem:4G")
    first, second = (inside(pod, name, sharing(2600)) for name in ("a", "b"))
    placed(engine, first)
    assert placed(engine, second) == "1-11"
    owner = container_of("owner", 1, even("socket", "web"), app="own")
    assert placed(engine, owner) == "4"
    assert not told(engine, owner)
    there = {"pool-name.pinfold.dev/pod": "socket #2"}
    assert placed(engine, container_of("filler", 4, annotations=there)) == "8-11"
    assert [cpus(engine, one) for one in (first, second)] == ["1-3,5-7", "1-3,5-7"]
    assert list(engine.lost_rules()) == [owner.id]


@pytest.mark.parametrize("is_pen", [False, True], ids=["two", "a pen"])
def test_those_who_move_twice_before_anybody_looks_count_from_where_they_were_at_first(
    *, is_pen: bool
) -> None:
    engine = engine_of("socket:5 core:4 mem:4G")
    webs = [container_of(f"web{n}", 4.5, app="web", shares=True) for n in range(2)]
    if is_pen:
        pod = web_pod()
        webs = [inside(pod, name, sharing(2600)) for name in ("a", "b")]
    for one in webs:
        placed(engine, one)
    owner = container_of("owner", 1, even("socket", "web"), app="own")
    assert placed(engine, owner) == "4"
    for number in (3, 4):
        there = {"pool-name.pinfold.dev/pod": f"socket #{number}"}
        placed(engine, container_of(f"filler{number}", 4, annotations=there))
    assert [cpus(engine, one) for one in webs] == ["1-3,5-11", "1-3,5-11"]
    assert list(engine.lost_rules()) == [owner.id]
    assert told(engine, owner).startswith("spread over socket, at most 1 apart: app=web")

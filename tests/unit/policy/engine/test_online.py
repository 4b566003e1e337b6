"""Cpus that go offline and come back under running containers."""

import pytest
from msgspec import structs

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.topology.made.online_cpus import with_online
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.topology.model import offline

FULL = machine_from_spec("socket:1 core:4")
RESERVED = Config(reserved_resources=Amounts(cpu="cpuset:0"))


def container(name: str, milli: int) -> Container:
    return Container(
        id=ContainerId(name),
        name=name,
        pod=Pod(id=PodId(name), name=name, qos=QosClass.GUARANTEED),
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli),
    )


def without(offline: str) -> Machine:
    """The four cores with some of them offline."""
    return with_online(FULL, FULL.online - CpuSet.parse(offline))


def cpus(engine: Engine, name: str) -> str:
    pinning = engine.pinning(ContainerId(name))
    assert pinning is not None
    return str(pinning.cpus)


def test_of_its_own_cpus_those_stay_that_are_online() -> None:
    one = Engine(FULL, RESERVED)
    one.create(container("a", 2000))
    assert cpus(one, "a") == "1-2"
    other, _ = one.reconfigured(one.config, without("2"))
    assert str(other.grants[ContainerId("a")].exclusive) == "1,3"
    assert cpus(other, "a") == "1,3"
    other.check()


@pytest.mark.parametrize("offline", ["3", "1-2"])
def test_shared_cpus_that_come_back_are_shared_again(offline: str) -> None:
    one = Engine(FULL, RESERVED)
    one.create(container("shares", 500))
    assert cpus(one, "shares") == "1-3"
    narrow, lost = one.reconfigured(one.config, without(offline))
    assert [str(change.after.cpus) for change in lost.changes] == [cpus(narrow, "shares")]
    wide, regained = narrow.reconfigured(narrow.config, FULL)
    assert [str(change.after.cpus) for change in regained.changes] == ["1-3"]
    assert cpus(wide, "shares") == "1-3"
    wide.check()


def test_a_cpu_that_comes_back_leaves_exclusive_ones_alone() -> None:
    one = Engine(without("3"), RESERVED)
    one.create(container("own", 1000))
    other, answer = one.reconfigured(one.config, FULL)
    assert answer.changes == ()
    assert cpus(other, "own") == cpus(one, "own")


def test_a_configuration_that_allows_more_gives_back_what_one_before_took() -> None:
    narrow = Config(
        reserved_resources=Amounts(cpu="cpuset:0"), available_resources=Amounts(cpu="cpuset:0-1")
    )
    one = Engine(FULL, RESERVED)
    one.create(container("own", 2000))
    one.create(container("shares", 500))
    assert (cpus(one, "own"), cpus(one, "shares")) == ("1-2", "3")
    poor, _ = one.reconfigured(narrow)
    assert (cpus(poor, "own"), cpus(poor, "shares")) == ("1", "0")
    rich, _ = poor.reconfigured(RESERVED)
    assert len(rich.grants[ContainerId("own")].exclusive) == 2
    assert not {*cpus(rich, "own").split("-")} & {cpus(rich, "shares")}
    rich.check()


def test_a_configuration_that_allows_no_more_tells_nobody() -> None:
    one = Engine(FULL, RESERVED)
    one.create(container("own", 1000))
    one.create(container("shares", 500))
    other, answer = one.reconfigured(Config(pin_memory=True, colocate_pods=True))
    assert answer.changes == ()
    assert cpus(other, "shares") == cpus(one, "shares")


@pytest.mark.parametrize("reserved", [None, "1", "750m", "3"])
def test_reserved_cpus_of_our_choice_stay_whichever_others_go_and_come(
    reserved: str | None,
) -> None:
    """For a new node others would be chosen: one whose sibling is offline spares a whole core."""
    full = machine_from_spec("socket:2 core:4 thread:2 mem:8G")
    config = Config(reserved_resources=Amounts(cpu=reserved))
    one = Engine(full, config)
    one.create(container("shares", 500))
    for number in full.online - one.supply.reserved:
        machine = offline.without(full, CpuSet.of(number))
        less, _ = one.reconfigured(config, machine)
        again = Engine(machine, config)
        again.synchronize(less.snapshot().running(), less.snapshot().advice())
        back, _ = less.reconfigured(config, full)
        for other in (less, again, back):
            assert other.supply.reserved == one.supply.reserved
            other.check()


def test_reserved_cpus_of_our_choice_stay_where_nobody_runs() -> None:
    full = machine_from_spec("socket:2 core:4 thread:2 mem:8G")
    one = Engine(full, Config())
    less, _ = one.reconfigured(Config(), offline.without(full, CpuSet.of(9)))
    assert less.supply.reserved == one.supply.reserved
    assert Engine(less.machine, Config()).supply.reserved != one.supply.reserved


def test_cpus_that_stand_in_for_reserved_ones_stay_until_these_are_back() -> None:
    full = machine_from_spec("socket:2 core:4 thread:2 mem:8G")
    config = Config(reserved_resources=Amounts(cpu="cpuset:4"))
    one = Engine(full, config)
    one.create(container("shares", 500))
    one, _ = one.reconfigured(config, offline.without(full, CpuSet.of(4)))
    stand_in = one.supply.reserved
    for number in full.online - stand_in - CpuSet.of(4):
        machine = offline.without(full, CpuSet.of(4, number))
        less, _ = one.reconfigured(config, machine)
        again = Engine(machine, config)
        again.synchronize(less.snapshot().running(), less.snapshot().advice())
        assert less.supply.reserved == again.supply.reserved == stand_in
        back, _ = less.reconfigured(config, full)
        assert str(back.supply.reserved) == "4"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("socket:2 core:4 thread:2 mem:8G", id="in their socket"),
        pytest.param("socket:1 l3:2 core:4 thread:2 mem:8G", id="below their L3"),
    ],
)
def test_further_cpus_are_reserved_beside_those_that_stay(spec: str) -> None:
    """In the other half a core spares whole ones, as its sibling is offline."""
    full = machine_from_spec(spec)
    config = Config(reserved_resources=Amounts(cpu="2"))
    one = Engine(full, config)
    one.create(container("shares", 500))
    less, _ = one.reconfigured(config, offline.without(full, CpuSet.parse("0,9")))
    assert len(less.supply.reserved) == 2
    assert less.supply.reserved <= CpuSet.parse("1-7")


def test_who_runs_on_reserved_cpus_of_our_choice_loses_only_those_that_go() -> None:
    full = machine_from_spec("socket:1 core:4 thread:2 mem:8G")
    config = Config(reserved_resources=Amounts(cpu="2"))
    one = Engine(full, config)
    one.create(container("shares", 500))
    assert str(one.supply.reserved) == "0-1"
    less, _ = one.reconfigured(config, offline.without(full, CpuSet.parse("0")))
    assert CpuSet.of(1) <= less.supply.reserved
    assert len(less.supply.reserved) == 2
    back, answer = less.reconfigured(config, full)
    assert back.supply.reserved == less.supply.reserved
    assert [str(change.after.cpus) for change in answer.changes] == ["0,3-7"]


@pytest.mark.parametrize(
    ("running", "reserved"),
    [
        pytest.param("one two", "0", id="the others leave them free"),
        pytest.param("one two kube-system", "0", id="the system is on them"),
        pytest.param("kube-system", "0", id="the system alone"),
        pytest.param("one", "0", id="it is on that of a new node"),
        pytest.param("", "8", id="nobody runs"),
    ],
)
def test_what_runs_tells_which_cpus_were_reserved_where_nobody_remembers(
    running: str, reserved: str
) -> None:
    full = machine_from_spec("socket:2 core:4 thread:2 mem:8G")
    less = offline.without(full, CpuSet.of(9))
    one = Engine(full, Config())
    for name in running.split():
        known = container(name, 6500)
        one.create(structs.replace(known, pod=structs.replace(known.pod, namespace=name)))
    one, _ = one.reconfigured(Config(), less)
    again = Engine(less, Config())
    answer = again.synchronize(one.snapshot().running())

    assert answer.changes == ()
    assert str(again.supply.reserved) == reserved
    again.check()


@pytest.mark.parametrize(
    ("running", "reserved"),
    [
        pytest.param("1-3", "8", id="where those of a new node are free, too, these"),
        pytest.param("0-6,8,10-13", "7", id="one that nobody runs on, rather than these"),
        pytest.param("0-8,10-13", "8", id="these where all others are isolated"),
        pytest.param(
            "0-8,10-13 kube-system:0 kube-system:1 kube-system:1", "1", id="else the system's"
        ),
        pytest.param(
            "2-8,10-13 kube-system:0 kube-system:1 kube-system:1", "1", id="where most of it is"
        ),
        pytest.param("0,2-8,10-13 kube-system:0 kube-system:1", "1", id="where it is alone"),
        pytest.param("2-8,10-13 kube-system:0-1", "8", id="no more of them than are to be"),
    ],
)
def test_reserved_cpus_are_told_apart_by_the_cpusets_of_what_runs(
    running: str, reserved: str
) -> None:
    """Of this machine's last core the kernel isolates both."""
    full = machine_from_spec("socket:2 core:4 thread:2 mem:8G isolated:14-15")
    listed: list[Container] = []
    for number, text in enumerate(running.split()):
        namespace, _, cpuset = text.rpartition(":")
        known = container(f"{namespace}{number}", 100)
        pod = structs.replace(known.pod, namespace=namespace or "default")
        listed.append(structs.replace(known, pod=pod, cpus=CpuSet.parse(cpuset)))
    one = Engine(offline.without(full, CpuSet.of(9)), Config())
    one.synchronize(listed)
    assert str(one.supply.reserved) == reserved

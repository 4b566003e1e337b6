"""Which cpus may be used, which are reserved: amounts, sets, and what does not fit."""

import pytest
from msgspec.structs import replace

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.request import CpuType, Isolation, Request
from pinfold.policy.pools.supply import Supply, read_supply
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.topology.model.offline import without

EIGHT = "socket:2 core:4"
ISOLATED = "socket:2 core:4 isolated:2-3"


def supply(spec: str, reserved: str | None = None, available: str | None = None) -> Supply:
    machine = machine_from_spec(spec)
    config = Config(
        reserved_resources=Amounts(cpu=reserved), available_resources=Amounts(cpu=available)
    )
    return read_supply(machine, config, CpuPicker(machine))


SETS = [
    pytest.param(EIGHT, None, None, "0", "1-7", id="nothing said: one reserved"),
    pytest.param(EIGHT, "750m", None, "0", "1-7", id="a part of a cpu is one"),
    pytest.param(EIGHT, "1", None, "0", "1-7", id="one"),
    pytest.param(EIGHT, "1001m", None, "0-1", "2-7", id="a little more is two"),
    pytest.param(EIGHT, "4", None, "0-3", "4-7", id="a whole socket"),
    pytest.param(EIGHT, "cpuset:1,5", None, "1,5", "0,2-4,6-7", id="these"),
    pytest.param(EIGHT, "exclude-cpuset:1-7", None, "0", "1-7", id="all but these"),
    pytest.param(EIGHT, "cpuset:2,9", None, "2", "0-1,3-7", id="of these who is online"),
    pytest.param(EIGHT, "1", "cpuset:2-5", "2", "3-5", id="one of the available"),
    pytest.param(EIGHT, "1", "exclude-cpuset:0-3", "4", "5-7", id="none of the excluded"),
    pytest.param(EIGHT, "exclude-cpuset:3-7", "cpuset:2-5", "2", "3-5", id="of both sets"),
    pytest.param(EIGHT, "8", None, "0-7", "", id="all of them"),
    pytest.param(ISOLATED, "3", None, "4-6", "0-1,7", id="no isolated one for an amount"),
    pytest.param(ISOLATED, "cpuset:2", None, "2", "0-1,4-7", id="one isolated one by name"),
]


@pytest.mark.parametrize(("spec", "reserved", "available", "expected", "sharable"), SETS)
def test_cpus_are_reserved(
    spec: str, reserved: str | None, available: str | None, expected: str, sharable: str
) -> None:
    found = supply(spec, reserved, available)
    assert (str(found.reserved), str(found.sharable)) == (expected, sharable)
    assert not found.isolated & found.reserved
    assert found.allowed == found.isolated | found.reserved | found.sharable


def test_isolated_cpus_are_those_of_the_kernel_that_are_available() -> None:
    assert str(supply(ISOLATED).isolated) == "2-3"
    assert str(supply(ISOLATED, "cpuset:2").isolated) == "3"
    assert str(supply(ISOLATED, "1", "exclude-cpuset:2").isolated) == "3"


def request_of(exclusive: int, shared_milli: int, isolation: Isolation) -> Request:
    return Request(
        container_id=ContainerId("c"),
        qos=QosClass.GUARANTEED,
        exclusive=exclusive,
        shared_milli=shared_milli,
        isolation=isolation,
    )


SHARED = request_of(0, 500, Isolation.REQUIRED)
FIRM = request_of(1, 0, Isolation.REQUIRED)


@pytest.mark.parametrize(
    ("request_", "cpus"),
    [
        pytest.param(SHARED, "1,4-7", id="shared cpus"),
        pytest.param(request_of(1, 0, Isolation.NO), "1,4-7", id="its own, none isolated"),
        pytest.param(request_of(1, 0, Isolation.PREFERRED), "1-7", id="isolated ones if any"),
        pytest.param(FIRM, "2-3", id="isolated ones alone"),
        pytest.param(request_of(1, 500, Isolation.REQUIRED), "1-7", id="isolated and shared ones"),
        pytest.param(replace(FIRM, fallback=SHARED), "1-7", id="shared ones, if not isolated"),
        pytest.param(replace(FIRM, fallback=FIRM), "2-3", id="fewer isolated ones, at worst"),
        pytest.param(replace(SHARED, cpu_type=CpuType.RESERVED), "0", id="reserved ones"),
    ],
)
def test_the_cpus_that_a_request_may_be_granted(request_: Request, cpus: str) -> None:
    assert str(supply(ISOLATED).eligible(request_)) == cpus


ERRORS = [
    pytest.param(EIGHT, "750x", None, r"failed to parse .*750x", id="no amount"),
    pytest.param(EIGHT, "cpuset:a-b", None, r"failed to parse .*a-b", id="no set"),
    pytest.param(EIGHT, "cpus:1", None, r"failed to parse .*cpus", id="no such kind of set"),
    pytest.param(EIGHT, "0", None, r"reserves no cpu", id="no cpu"),
    pytest.param(EIGHT, "cpuset:", None, r"reserves no cpu", id="an empty set"),
    pytest.param(
        EIGHT, "cpuset:12", None, r"no cpu — reserve some of 0-7", id="only cpus that are not there"
    ),
    pytest.param(EIGHT, "9", None, r"9 cpus of 8 usable ones", id="too many"),
    pytest.param(EIGHT, "cpuset:0", "cpuset:1-3", r"cpus 0 .* not among the available", id="apart"),
    pytest.param(ISOLATED, "7", None, r"7 cpus of 6 usable", id="more than are not isolated"),
    pytest.param(ISOLATED, "cpuset:1-2", None, r"isolated cpus 2 among others", id="a mixture"),
    pytest.param(ISOLATED, "cpuset:2-3", None, r"isolated cpus 2-3", id="two isolated ones"),
    pytest.param(EIGHT, "1", "4", r"does not say which cpus", id="available: an amount"),
    pytest.param(EIGHT, "1", "4x", r"failed to parse .*4x", id="available: nothing known"),
    pytest.param(EIGHT, "1", "cpuset:9-", r"failed to parse .*9-", id="available: no set"),
    pytest.param(EIGHT, "1", "exclude-cpuset:0-7", r"leaves no cpu", id="available: nothing left"),
]


@pytest.mark.parametrize(("spec", "reserved", "available", "message"), ERRORS)
def test_what_does_not_fit_is_an_error(
    spec: str, reserved: str, available: str | None, message: str
) -> None:
    where = "reservedResources.cpu" if available is None else "(available|reserved)Resources.cpu"
    with pytest.raises(ConfigError, match=f"^{where}: .*{message}"):
        supply(spec, reserved, available)


def test_cpus_that_are_not_online_are_left_out_with_a_warning() -> None:
    found = supply(EIGHT, "cpuset:0,40", "cpuset:0-3,50-51")
    assert found.warnings == (
        "availableResources.cpu: cpus 50-51 of 'cpuset:0-3,50-51' are not online",
        "reservedResources.cpu: cpus 40 of 'cpuset:0,40' are not online",
    )
    assert supply(EIGHT).warnings == ()


GONE = [
    pytest.param(EIGHT, "cpuset:0", None, "0", "1", id="the only reserved one"),
    pytest.param(EIGHT, "cpuset:0-1", None, "0", "1", id="one of two: the other one serves"),
    pytest.param(EIGHT, "cpuset:0-1", None, "0-1", "2-3", id="both of two"),
    pytest.param(EIGHT, "exclude-cpuset:2-7", None, "0-1", "2-3", id="all that are not excluded"),
    pytest.param(EIGHT, "cpuset:0-5", None, "0-5", "6", id="so many that fewer are left"),
    pytest.param(EIGHT, "1", None, "0", "1", id="an amount"),
    pytest.param(EIGHT, "6", None, "0-3", "4-6", id="an amount that is not left"),
    pytest.param(EIGHT, "8", None, "0-3", "4-6", id="an amount that was all"),
    pytest.param(EIGHT, None, None, "0", "1", id="nothing said"),
    pytest.param(ISOLATED, "cpuset:0", None, "0-1,4-7", "2", id="only isolated ones are left"),
    pytest.param(ISOLATED, "2", None, "0-1,4-7", "2", id="only isolated ones for an amount"),
    pytest.param(EIGHT, "1", "cpuset:0-3", "0-3", "4", id="all that are available"),
    pytest.param(EIGHT, "1", "exclude-cpuset:4-7", "0-3", "4", id="all that are not excluded"),
]


@pytest.mark.parametrize(("spec", "reserved", "available", "offline", "expected"), GONE)
def test_cpus_that_go_offline_never_refuse_what_fitted(
    spec: str, reserved: str | None, available: str | None, offline: str, expected: str
) -> None:
    whole = machine_from_spec(spec)
    machine = without(whole, CpuSet.parse(offline))
    config = Config(
        reserved_resources=Amounts(cpu=reserved), available_resources=Amounts(cpu=available)
    )
    assert not read_supply(whole, config, CpuPicker(whole)).warnings
    found = read_supply(machine, config, CpuPicker(machine))
    assert str(found.reserved) == expected
    assert found.allowed <= machine.online
    assert found.sharable or found.isolated


@pytest.mark.parametrize("text", ["8", "cpuset:0-7", "exclude-cpuset:8"])
def test_that_all_cpus_are_reserved_is_remarked(text: str) -> None:
    found = supply(EIGHT, text)
    assert found.remarks == (
        *found.warnings,
        "reservedResources.cpu: every cpu (0-7) is reserved, so all containers but those on"
        " reserved cpus are refused — reserve fewer",
    )
    assert supply(EIGHT, "7").remarks == supply(EIGHT, "7").warnings
    assert not supply("core:1").remarks[1:], "the only cpu is everybody's"


def test_who_stands_in_for_reserved_cpus_is_said() -> None:
    machine = without(machine_from_spec(EIGHT), CpuSet.of(0))
    config = Config(reserved_resources=Amounts(cpu="cpuset:0"))
    assert read_supply(machine, config, CpuPicker(machine)).warnings == (
        "reservedResources.cpu: cpus 0 of 'cpuset:0' are not online",
        "reservedResources.cpu: no cpu of 'cpuset:0' is online (offline are 0): cpus 1 are"
        " reserved instead",
    )
    config = Config(reserved_resources=Amounts(cpu="8"))
    assert read_supply(machine, config, CpuPicker(machine)).warnings == (
        "reservedResources.cpu: '8' reserves 8 cpus, and cpus 0 are offline: 6 of them",
    )


def test_nodes_of_cpus_that_are_offline_count_for_nothing() -> None:
    machine = without(machine_from_spec("socket:2 core:4 mem:4G"), CpuSet.parse("4-7"))
    for text in ("cpuset:4-7", "exclude-cpuset:4-7"):
        config = Config(available_resources=Amounts(memory=text))
        found = read_supply(machine, config, CpuPicker(machine))
        assert found.memory.ordinary is None or str(found.memory.ordinary) == "0-1"
        assert found.warnings


def test_the_highest_ids_there_can_be() -> None:
    base = machine_from_spec("socket:1 core:2")
    online = CpuSet.of(8190, 8191)
    cpus = {cpu.id + 8190: cpu for cpu in base.cpus.values()}
    machine = Machine(
        online=online,
        present=online,
        possible=online,
        cpus=cpus,
        sockets=(),
        dies=(),
        cores=(),
        numa_nodes=(),
    )
    config = Config(reserved_resources=Amounts(cpu="cpuset:8191"))
    assert str(read_supply(machine, config, CpuPicker(machine)).sharable) == "8190"


def test_the_only_cpu_is_not_reserved() -> None:
    found = supply("socket:1 core:1")
    assert not found.reserved
    assert str(found.sharable) == "0"
    (warning,) = found.warnings
    assert warning.endswith("is the only cpu: nothing is reserved")


def test_where_all_cpus_are_isolated_one_of_them_is_reserved() -> None:
    found = supply("socket:1 core:4 isolated:0-3", "1")
    assert str(found.reserved) == "0"
    assert str(found.isolated) == "1-3"
    assert not found.sharable

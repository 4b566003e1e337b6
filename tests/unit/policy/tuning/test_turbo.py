"""Where a class of cpus gets turbo, by the classes that run in each socket already."""

from collections.abc import Mapping

import pytest

from pinfold.policy.configuration.config import Config, CpuClass
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.request import Request
from pinfold.policy.pools.supply import Supply
from pinfold.policy.tuning.effects import ExclusiveCpus, Occupancy
from pinfold.policy.tuning.turbo import prefer_turbo
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet

MACHINE = machine_from_spec("socket:3 core:4")
SOCKETS = ("0-3", "4-7", "8-11")
CONFIG = Config(
    cpu_classes=(
        CpuClass(name="shared", max_freq="base"),
        CpuClass(name="low", max_freq="turbo", turbo_priority=1),
        CpuClass(name="mid", min_freq="turbo", turbo_priority=2),
        CpuClass(name="top", max_freq="turbo", turbo_priority=3),
        CpuClass(name="steady", max_freq="2GHz", turbo_priority=2),
    ),
    shared_pool_cpu_class="shared",
)


def narrowed(name: str | None, running: Mapping[str, str], config: Config = CONFIG) -> str:
    """The cpus that suit a class while others have `running` (cpus by class)."""
    supply = Supply(isolated=CpuSet(), reserved=CpuSet.of(0), sharable=CpuSet.parse("1-11"))
    holdings = tuple(
        ExclusiveCpus(cpus=CpuSet.parse(cpus), cpu_class=one) for one, cpus in running.items()
    )
    now = Occupancy(machine=MACHINE, config=config, supply=supply, holdings=holdings)
    request = Request(
        container_id=ContainerId("a"),
        qos=QosClass.GUARANTEED,
        exclusive=2,
        class_cpus=MACHINE.online,
    )
    return str(prefer_turbo(request, name, config, lambda: now).class_cpus)


@pytest.mark.parametrize(
    ("name", "running", "expected"),
    [
        pytest.param("mid", {}, "0-11", id="all sockets are alike"),
        pytest.param("mid", {"top": "4"}, "0-3,8-11", id="not where a higher class is"),
        pytest.param("mid", {"mid": "4"}, "0-11", id="beside one's own kind all is well"),
        pytest.param("top", {"mid": "4"}, "0-3,8-11", id="not where another one would lose it"),
        pytest.param("top", {"steady": "4"}, "0-11", id="who wants no turbo loses none"),
        pytest.param("steady", {"top": "4"}, "0-11", id="who wants no turbo may be below others"),
        pytest.param(
            "mid", {"top": "1", "low": "4", "mid": "8"}, "8-11", id="the one where nobody loses"
        ),
        pytest.param(
            "mid", {"top": "1,8", "low": "4"}, "4-7", id="rather somebody lower than oneself"
        ),
        pytest.param("mid", {"top": "1,4,8"}, "0-11", id="it has turbo nowhere"),
        pytest.param("mid", {"top": "4", "low": "1-2,8-10"}, "0-11", id="no room anywhere else"),
        pytest.param("shared", {"top": "4"}, "0-11", id="a class below turbo"),
        pytest.param(None, {"top": "4"}, "0-11", id="no class"),
    ],
)
def test_sockets_for_a_class(name: str | None, running: Mapping[str, str], expected: str) -> None:
    assert narrowed(name, running) == expected


def test_without_competition_nobody_looks_who_has_what() -> None:
    def look() -> Occupancy:
        raise AssertionError

    config = Config(cpu_classes=(CpuClass(name="fast", max_freq="turbo"),))
    request = Request(
        container_id=ContainerId("a"),
        qos=QosClass.GUARANTEED,
        exclusive=2,
        class_cpus=MACHINE.online,
    )
    assert prefer_turbo(request, "fast", config, look) is request
    assert prefer_turbo(request, None, CONFIG, look) is request

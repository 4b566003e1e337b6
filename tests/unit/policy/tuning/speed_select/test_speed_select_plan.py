"""What classes of cpus make of Speed Select: classes of service, limits, features, resources."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.pools.supply import Supply
from pinfold.policy.tuning.clos_plan import ClosId, SpeedSelectPlan
from pinfold.policy.tuning.cpu_class import Clock
from pinfold.policy.tuning.effects import (
    ExclusiveCpus,
    Hardware,
    Knob,
    KnobKind,
    Occupancy,
    effects,
)
from pinfold.policy.tuning.speed_select_plan import (
    extended_resources,
    plan_speed_select,
    speed_select_warnings,
)
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, SocketId, SpeedSelect
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet

PLAIN = machine_from_spec("socket:2 numa:1 core:4 thread:2 mem:4G")
HIGH = {"name": "high", "minFreq": "turbo", "maxFreq": "turbo", "pctPriority": "high"}
LOW = {"name": "low", "minFreq": "min", "maxFreq": "base", "pctPriority": "low"}
PLAIN_CLASS = {"name": "plain", "maxFreq": "base"}


def domain(socket: int, cpus: str, **facts: Any) -> SpeedSelect:
    known = CpuSet.parse(cpus)
    values: dict[str, Any] = {
        "supports_core_power": True,
        "supports_turbo_frequency": True,
        "high_priority_cpus": 2,
        "clos_of": dict.fromkeys(known, 0),
        **facts,
    }
    return SpeedSelect(socket=SocketId(socket), cpus=known, **values)


def machine(*domains: SpeedSelect, base: int | None = 2_900_000) -> Machine:
    cpus = {
        number: replace(cpu, min_khz=800_000, base_khz=base, max_khz=3_800_000)
        for number, cpu in PLAIN.cpus.items()
    }
    return replace(PLAIN, cpus=cpus, speed_select=domains)


TWO = machine(domain(0, "0-7"), domain(1, "8-15"))


def config(*classes: Mapping[str, object], **fields: object) -> Config:
    values = {"cpuClasses": list(classes), "sharedPoolCPUClass": classes[0]["name"], **fields}
    return config_from_values(values)


def plan(
    configured: Config, where: Machine = TWO, allowed: str = "0-15", **held: str
) -> SpeedSelectPlan:
    cpus = CpuSet.parse(allowed)
    classes = {name: CpuSet.parse(listed) for name, listed in held.items()}
    return plan_speed_select(where, configured, cpus, classes)


def groups(found: SpeedSelectPlan) -> dict[int, str]:
    """The cpus of each class of service."""
    return {
        clos: str(CpuSet.collect(cpu for cpu, one in found.clos_of.items() if one == clos))
        for clos in sorted(set(found.clos_of.values()))
    }


MANAGED = config(LOW, HIGH, PLAIN_CLASS)


def test_managed_classes_have_limits_of_the_hardware_and_both_features_on() -> None:
    found = plan(MANAGED, low="0-15")
    fast = Clock(min_khz=3_800_000, max_khz=3_800_000)
    slow = Clock(min_khz=800_000, max_khz=2_900_000)
    assert found.limits == {
        ClosId("0/0", 0): fast,
        ClosId("0/0", 3): slow,
        ClosId("1/0", 0): fast,
        ClosId("1/0", 3): slow,
    }
    assert found.core_power == found.turbo_frequency == ("0/0", "1/0")


@pytest.mark.parametrize(
    ("configured", "held", "expected"),
    [
        pytest.param(MANAGED, {"low": "0-15"}, {3: "0-15"}, id="all shared"),
        pytest.param(
            MANAGED, {"low": "0-1,4-15", "high": "2-3"}, {0: "2-3", 3: "0-1,4-15"}, id="a core"
        ),
        pytest.param(
            MANAGED,
            {"low": "0-2,4-15", "high": "3"},
            {0: "2-3", 3: "0-1,4-15"},
            id="threads of a core share a class of service, the preferred one",
        ),
        pytest.param(
            MANAGED,
            {"low": "4-15", "plain": "0-3"},
            {3: "0-15"},
            id="a class without one goes where the low ones go",
        ),
        pytest.param(
            config(PLAIN_CLASS, HIGH),
            {"plain": "0-13", "high": "14-15"},
            {0: "14-15"},
            id="without a low class the others stay as found",
        ),
        pytest.param(
            config({"name": "a", "sstClosID": 2}, PLAIN_CLASS),
            {"a": "0-7", "plain": "8-15"},
            {2: "0-7"},
            id="association only leaves the others as found",
        ),
        pytest.param(config(PLAIN_CLASS), {"plain": "0-15"}, {}, id="no field asks for anything"),
    ],
)
def test_cpus_are_in_the_class_of_service_of_their_class(
    configured: Config, held: dict[str, Any], expected: dict[int, str]
) -> None:
    assert groups(plan(configured, **held)) == expected


@pytest.mark.parametrize(
    "configured",
    [
        pytest.param(config({"name": "a", "sstClosID": 2}), id="association only"),
        pytest.param(config(PLAIN_CLASS), id="plain classes"),
    ],
)
def test_features_and_limits_are_touched_in_managed_mode_alone(configured: Config) -> None:
    found = plan(configured, a="0-15")
    assert (found.limits, found.core_power, found.turbo_frequency) == ({}, (), ())


@pytest.mark.parametrize(
    ("where", "allowed", "domains", "turbo"),
    [
        pytest.param(TWO, "8-11", ("1/0",), ("1/0",), id="cpus that are not ours"),
        pytest.param(
            machine(domain(0, "0-7", supports_core_power=False), domain(1, "8-15", domain=2)),
            "0-15",
            ("1/2",),
            ("1/2",),
            id="a domain without core power",
        ),
        pytest.param(
            machine(domain(0, "0-7", supports_turbo_frequency=False)),
            "0-15",
            ("0/0",),
            (),
            id="a domain without turbo frequency",
        ),
        pytest.param(machine(), "0-15", (), (), id="no Speed Select at all"),
    ],
)
def test_only_domains_that_can_do_it_and_hold_our_cpus_are_touched(
    where: Machine, allowed: str, domains: tuple[str, ...], turbo: tuple[str, ...]
) -> None:
    found = plan(MANAGED, where, allowed, low=allowed)
    assert (found.core_power, found.turbo_frequency) == (domains, turbo)
    assert {one.domain for one in found.limits} == set(domains)


def limits(*, base: int | None = 2_900_000, **fields: Any) -> Clock:
    chosen = config({"name": "a", "pctPriority": "high", **fields})
    return plan(chosen, machine(domain(0, "0-7"), base=base), a="0-7").limits[ClosId("0/0", 0)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, (None, None), id="nothing said, nothing set"),
        pytest.param({"minFreq": "1GHz"}, (1_000_000, None), id="one end"),
        pytest.param(
            {"minFreq": "min", "maxFreq": "base", "pctMinFreq": "base", "pctMaxFreq": "turbo"},
            (2_900_000, 3_800_000),
            id="its own fields win",
        ),
        pytest.param(
            {"minFreq": "turbo", "maxFreq": "3GHz"}, (3_000_000, 3_000_000), id="not above the top"
        ),
    ],
)
def test_limits_of_a_class_of_service(
    fields: dict[str, Any], expected: tuple[int | None, int | None]
) -> None:
    low, high = expected
    assert limits(**fields) == Clock(min_khz=low, max_khz=high)


def test_turbo_is_real_whatever_class_has_the_higher_turbo_priority() -> None:
    chosen = config(LOW, HIGH, {"name": "other", "maxFreq": "turbo", "turboPriority": 9})
    found = plan(chosen, low="0-1", high="2-3", other="4-5")
    assert found.limits[ClosId("0/0", 0)].max_khz == 3_800_000


def test_a_frequency_nobody_knows_is_left_as_found_and_told_once() -> None:
    assert limits(base=None, minFreq="min", maxFreq="base") == Clock(min_khz=800_000)
    chosen = config({"name": "a", "pctPriority": "low", "maxFreq": "base"})
    unknown = machine(domain(0, "0-7"), domain(1, "8-15"), base=None)
    assert warnings(chosen, unknown) == [
        "cpuClasses: the base frequency for the class of service of 'a' is not known, so it is not"
        " set — write a number as pctMinFreq or pctMaxFreq"
    ]


def test_a_domain_of_two_classes_of_service_has_its_low_priority_in_the_last() -> None:
    found = plan(MANAGED, machine(domain(0, "0-7", clos_count=2)), low="0-5", high="6-7")
    assert groups(found) == {0: "6-7", 1: "0-5"}


def test_knobs_are_turned_in_the_order_the_hardware_needs() -> None:
    supply = Supply(isolated=NO_CPUS, reserved=CpuSet.of(0), sharable=CpuSet.parse("1-7"))
    alone = machine(domain(0, "0-7", domain=1))
    occupancy = Occupancy(
        machine=alone,
        config=MANAGED,
        supply=supply,
        holdings=(ExclusiveCpus(cpus=CpuSet.parse("2-3"), cpu_class="high"),),
    )
    values = effects(occupancy, Hardware()).values
    assert {knob: text for knob, text in values.items() if knob.kind is KnobKind.CLOS} == {
        Knob(KnobKind.CLOS, cpu, "0/1"): "0" if cpu in (2, 3) else "3" for cpu in range(8)
    }
    assert [(str(knob), text) for knob, text in values.items() if knob.name == "0/1"][:4] == [
        ("class 3 in power domain 0/1", "800000"),
        ("class 3 in power domain 0/1", "2900000"),
        ("class 0 in power domain 0/1", "3800000"),
        ("class 0 in power domain 0/1", "3800000"),
    ]
    assert list(values.items())[-2:] == [
        (Knob(KnobKind.CORE_POWER, name="0/1"), "1 ordered"),
        (Knob(KnobKind.TURBO_FREQUENCY, name="0/1"), "1"),
    ]


def warnings(configured: Config, where: Machine = TWO) -> list[str]:
    return list(speed_select_warnings(where, configured, CpuSet.parse("0-15")))


@pytest.mark.parametrize(
    ("configured", "where", "expected"),
    [
        pytest.param(MANAGED, TWO, [], id="all that is asked for can be had"),
        pytest.param(config(PLAIN_CLASS), machine(), [], id="nothing is asked for"),
        pytest.param(
            config({**HIGH, "pctMaxFreq": "3GHz"}, {**LOW, "publishExtendedResource": True}),
            machine(),
            [
                "cpuClasses: pctPriority, pctMaxFreq, publishExtendedResource: no effect, this"
                " machine shows no Speed Select — leave them out, or let the daemon have"
                " /dev/isst_interface"
            ],
            id="a machine without it: one for all fields",
        ),
        pytest.param(
            config({**HIGH, "publishExtendedResource": True}, LOW),
            TWO,
            [
                "cpuClasses: publishExtendedResource of high: nothing is published by this version"
                " — 'pinfold pools -o json' has the amounts"
            ],
            id="publishing",
        ),
        pytest.param(
            config(HIGH),
            TWO,
            [
                "cpuClasses: pctPriority high without low: other cpus may stay in class of service"
                " 0 and count as high — give the class of shared cpus pctPriority low"
            ],
            id="high without low",
        ),
        pytest.param(
            MANAGED,
            machine(domain(0, "0-7", supports_core_power=False), domain(1, "8-15")),
            [
                "cpuClasses: pctPriority: no effect in power domains 0/0, which have no SST-CP"
                " — enable it in the firmware"
            ],
            id="a domain that cannot",
        ),
        pytest.param(
            config({"name": "a", "sstClosID": 3}),
            machine(domain(0, "0-7", clos_count=2, has_core_power=True)),
            [
                "cpuClasses: sstClosID 3 of 'a' is no class of service of power domains 0/0"
                " — write a lower one"
            ],
            id="a class of service that is not there",
        ),
        pytest.param(
            config({"name": "a", "sstClosID": 3}),
            machine(domain(0, "0-7"), domain(1, "8-15", has_core_power=True)),
            [
                "cpuClasses: sstClosID has no effect while SST-CP is off, as in power domains 0/0"
                " — run 'intel-speed-select core-power enable'"
            ],
            id="association where nobody enabled it",
        ),
    ],
)
def test_what_fields_cannot_do_here_is_told(
    configured: Config, where: Machine, expected: list[str]
) -> None:
    assert warnings(configured, where) == expected


def published(*classes: Mapping[str, object]) -> Config:
    return config(*({**one, "publishExtendedResource": True} for one in classes))


def associated(**facts: Any) -> list[SpeedSelect]:
    khz = {0: (800_000, 3_800_000), 1: (800_000, 2_000_000)}
    return [domain(0, "0-7", clos_khz=khz, **facts), domain(1, "8-15", clos_khz=khz)]


@pytest.mark.parametrize(
    ("configured", "where", "allowed", "expected"),
    [
        pytest.param(published(HIGH), TWO, "0-15", {"high": 4}, id="what the hardware warrants"),
        pytest.param(published(HIGH), TWO, "0-8", {"high": 3}, id="of our own cpus"),
        pytest.param(published(LOW), TWO, "0-8", {"low": 9}, id="any cpu can be low"),
        pytest.param(MANAGED, TWO, "0-15", {}, id="nobody asks"),
        pytest.param(published(HIGH), machine(), "0-15", {}, id="no Speed Select"),
        pytest.param(
            published({"name": "a", "sstClosID": 0}, {"name": "b", "sstClosID": 1}),
            machine(*associated(has_turbo_frequency=True)),
            "0-15",
            {"a": 2, "b": 16},
            id="association: the faster one, where somebody enabled the turbo",
        ),
        pytest.param(
            published({"name": "a", "sstClosID": 0}),
            machine(domain(0, "0-7")),
            "0-15",
            {"a": 16},
            id="association: nobody knows which is faster",
        ),
    ],
)
def test_extended_resources_count_the_cpus_of_a_class(
    configured: Config, where: Machine, allowed: str, expected: dict[str, int]
) -> None:
    assert extended_resources(where, configured, CpuSet.parse(allowed)) == {
        f"cpuclass.resource-policy.nri.io/{name}": amount for name, amount in expected.items()
    }

from dataclasses import replace

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.placing.classifier import Classified, Classifier
from pinfold.policy.pools.supply import Supply
from pinfold.policy.tuning.cpu_class import Clock, CpuSettings, misfits, suitable_cpus
from pinfold.policy.tuning.effects import (
    ExclusiveCpus,
    Hardware,
    Knob,
    KnobKind,
    Occupancy,
    effects,
)
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet

PLAIN = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")
KEY = "cpu-class.resource-policy.nri.io"


def clocked(machine: Machine, base: int | None = 2_000_000) -> Machine:
    """A machine whose cpus run at 0.8, 2.0 and 3.5 GHz; the last one is slower."""
    cpus = {
        number: replace(cpu, min_khz=800_000, base_khz=base, max_khz=3_500_000)
        for number, cpu in machine.cpus.items()
    }
    last = max(cpus)
    cpus[last] = replace(cpus[last], max_khz=2_500_000)
    return replace(machine, cpus=cpus)


MACHINE = clocked(PLAIN)
SUPPLY = Supply(
    isolated=CpuSet.parse("7"), reserved=CpuSet.parse("0"), sharable=CpuSet.parse("1-6")
)


def config(**values: object) -> Config:
    classes: list[dict[str, object]] = [
        {"name": "low", "maxFreq": "base"},
        {"name": "high", "minFreq": "min", "maxFreq": "turbo", "freqGovernor": "performance"},
    ]
    fields = {"cpuClasses": classes, "sharedPoolCPUClass": "low", **values}
    return config_from_values(fields)


def classify(
    annotations: dict[str, str],
    milli: int = 1000,
    qos: str = "Guaranteed",
    configured: Config | None = None,
) -> Classified:
    container = Container(
        id=ContainerId("c"),
        name="c",
        pod=Pod(id=PodId("p"), name="p", annotations=annotations, qos=QosClass(qos)),
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli),
    )
    return Classifier(configured or config(defaultExclusiveCPUClass="low")).classify(container)


@pytest.mark.parametrize(
    ("annotations", "milli", "qos", "expected"),
    [
        pytest.param({}, 1000, "Guaranteed", "low", id="the default of exclusive cpus"),
        pytest.param({}, 500, "Guaranteed", None, id="no exclusive cpu, no class"),
        pytest.param({KEY: "high"}, 1000, "Guaranteed", "high", id="an annotation wins"),
        pytest.param({KEY: "high"}, 500, "Guaranteed", None, id="a pod's class passes over shares"),
        pytest.param({KEY: "high"}, 1000, "Burstable", None, id="a pod's class, not guaranteed"),
    ],
)
def test_the_class_of_a_container(
    annotations: dict[str, str], milli: int, qos: str, expected: str | None
) -> None:
    classified = classify(annotations, milli, qos)
    assert classified.cpu_class == expected
    assert classified.problems == ()


@pytest.mark.parametrize(
    ("annotations", "milli", "qos", "expected"),
    [
        pytest.param(
            {f"{KEY}/container.c": "high"},
            1000,
            "BestEffort",
            "CPU class 'high' invalid for non-Guaranteed QoS class BestEffort",
            id="not guaranteed",
        ),
        pytest.param(
            {f"{KEY}/container.c": "high"},
            500,
            "Guaranteed",
            "CPU class 'high' invalid without exclusive CPUs",
            id="no cpu for itself",
        ),
        pytest.param(
            {KEY: "hihg"},
            1000,
            "Guaranteed",
            "unknown CPU class 'hihg' — did you mean",
            id="unknown",
        ),
    ],
)
def test_classes_that_refuse_the_container(
    annotations: dict[str, str], milli: int, qos: str, expected: str
) -> None:
    (problem,) = classify(annotations, milli, qos).problems
    assert problem.is_fatal
    assert expected in str(problem)


def test_a_class_where_there_are_none_is_no_reason_to_refuse() -> None:
    (problem,) = classify({KEY: "high"}, configured=Config()).problems
    assert not problem.is_fatal
    assert "this node has no cpu classes" in str(problem)


def occupancy(
    configured: Config, *exclusive: tuple[str, str | None], machine: Machine = MACHINE
) -> Occupancy:
    holdings = tuple(
        ExclusiveCpus(cpus=CpuSet.parse(cpus), cpu_class=name) for cpus, name in exclusive
    )
    return Occupancy(machine=machine, config=configured, supply=SUPPLY, holdings=holdings)


@pytest.mark.parametrize(
    ("fields", "exclusive", "expected"),
    [
        pytest.param({}, [], {"low": "0-7"}, id="everything begins in the shared class"),
        pytest.param(
            {"reservedPoolCPUClass": "high"},
            [],
            {"low": "1-7", "high": "0"},
            id="reserved cpus have a class of their own",
        ),
        pytest.param(
            {}, [("2-3", "high")], {"low": "0-1,4-7", "high": "2-3"}, id="granted cpus change class"
        ),
        pytest.param({}, [("2-3", None)], {"low": "0-7"}, id="a grant without class changes none"),
        pytest.param(
            {"pinCPU": False}, [("2-3", "high")], {"low": "0-7"}, id="nothing without pinning"
        ),
    ],
)
def test_every_cpu_is_in_one_class(
    fields: dict[str, object], exclusive: list[tuple[str, str | None]], expected: dict[str, str]
) -> None:
    classes = occupancy(config(**fields), *exclusive).classes
    assert {name: str(cpus) for name, cpus in classes.items()} == expected


def test_nothing_is_set_without_classes() -> None:
    assert effects(occupancy(Config(), ("2", None)), Hardware()).values == {}


def frequencies(configured: Config, cpu: int, *exclusive: tuple[str, str | None]) -> str:
    values = effects(occupancy(configured, *exclusive), Hardware()).values
    low = values.get(Knob(KnobKind.MIN_FREQUENCY, cpu))
    return f"{low}-{values.get(Knob(KnobKind.MAX_FREQUENCY, cpu))}"


def competing(low: int, high: int) -> Config:
    classes = [
        {"name": "low", "maxFreq": "turbo", "turboPriority": low},
        {"name": "high", "maxFreq": "turbo", "turboPriority": high},
    ]
    return config(cpuClasses=classes)


@pytest.mark.parametrize(
    ("configured", "exclusive", "cpu", "expected"),
    [
        pytest.param(config(), [], 1, "None-2000000", id="a name is the cpu's own frequency"),
        pytest.param(config(), [("1", "high")], 1, "800000-3500000", id="an exclusive cpu"),
        pytest.param(config(), [("7", "high")], 7, "800000-2500000", id="a slower cpu"),
        pytest.param(competing(0, 0), [("1", "high")], 2, "None-3500000", id="no competition"),
        pytest.param(
            competing(0, 1), [("1", "high")], 2, "None-2000000", id="turbo goes to the first"
        ),
        pytest.param(competing(0, 1), [("1", "high")], 1, "None-3500000", id="who has turbo"),
        pytest.param(
            competing(0, 1), [("1", "high")], 5, "None-3500000", id="another package has its own"
        ),
        pytest.param(
            competing(0, 1), [], 2, "None-3500000", id="a class without cpus does not compete"
        ),
        pytest.param(competing(1, 1), [("1", "high")], 2, "None-3500000", id="equals share turbo"),
    ],
)
def test_frequencies_of_a_cpu(
    configured: Config, exclusive: list[tuple[str, str | None]], cpu: int, expected: str
) -> None:
    assert frequencies(configured, cpu, *exclusive) == expected


def test_a_frequency_that_is_not_known_is_left_alone_and_told_once() -> None:
    machine = clocked(PLAIN, base=None)
    found = effects(occupancy(config(), machine=machine), Hardware())
    assert not any(knob.kind is KnobKind.MAX_FREQUENCY for knob in found.values)
    assert found.warnings == (
        "cpu class 'low': the base frequency of its cpus is not known, so it is not set"
        " — write a number instead of 'base'",
    )
    later = effects(occupancy(config(), ("1-3", "high"), machine=machine), Hardware())
    assert later.warnings == found.warnings, "other cpus are no other reason"


def test_everything_a_class_says_is_set() -> None:
    low = {
        "name": "low",
        "minFreq": "1GHz",
        "maxFreq": 3_000_000,
        "energyPerformancePreference": "balance_power",
        "freqGovernor": "powersave",
        "disabledCstates": ["C6", "C8"],
    }
    values = effects(occupancy(config(cpuClasses=[low])), Hardware()).values
    assert [(knob.kind, knob.name, text) for knob, text in values.items() if knob.number == 3] == [
        (KnobKind.GOVERNOR, "", "powersave"),
        (KnobKind.EPP, "", "balance_power"),
        (KnobKind.MIN_FREQUENCY, "", "1000000"),
        (KnobKind.MAX_FREQUENCY, "", "3000000"),
        (KnobKind.CSTATE_DISABLED, "C6", "1"),
        (KnobKind.CSTATE_DISABLED, "C8", "1"),
    ]
    assert CpuSettings() == CpuSettings(disabled_cstates=())


UNCORE = {
    "0/0": Clock(min_khz=800_000, max_khz=2_400_000),
    "1/0": Clock(min_khz=800_000, max_khz=2_200_000),
}


def test_an_uncore_clock_is_never_told_less_than_its_own_minimum() -> None:
    low = {"name": "low", "uncoreMaxFreq": "1.2GHz"}
    high = {"name": "high", "uncoreMinFreq": "1.6GHz"}
    configured = config(cpuClasses=[low, high])
    found = effects(occupancy(configured, ("1", "high")), Hardware(uncore=UNCORE)).values
    assert found[Knob(KnobKind.UNCORE_MAX, name="0/0")] == "1600000"
    assert found[Knob(KnobKind.UNCORE_MAX, name="1/0")] == "1200000"


def uncore_config() -> Config:
    low = {"name": "low", "uncoreMinFreq": "min", "uncoreMaxFreq": "1.2GHz"}
    high = {"name": "high", "uncoreMinFreq": "1.6GHz", "uncoreMaxFreq": "turbo"}
    return config(cpuClasses=[low, high])


@pytest.mark.parametrize(
    ("exclusive", "expected"),
    [
        pytest.param(
            [],
            {"0/0": "800000-1200000", "1/0": "800000-1200000"},
            id="the shared class is everywhere",
        ),
        pytest.param(
            [("5", "high")],
            {"0/0": "800000-1200000", "1/0": "1600000-2200000"},
            id="the greatest of a die wins there",
        ),
    ],
)
def test_uncore_clocks_follow_the_classes_of_a_die(
    exclusive: list[tuple[str, str]], expected: dict[str, str]
) -> None:
    found = effects(occupancy(uncore_config(), *exclusive), Hardware(uncore=UNCORE)).values
    seen = {
        die: f"{found[Knob(KnobKind.UNCORE_MIN, name=die)]}"
        f"-{found[Knob(KnobKind.UNCORE_MAX, name=die)]}"
        for die in UNCORE
    }
    assert seen == expected


def test_uncore_limits_without_driver_are_told_once() -> None:
    found = effects(occupancy(uncore_config()), Hardware())
    assert found.values == {}
    (warning,) = found.warnings
    assert warning == (
        "cpu classes 'low', 'high': this machine's uncore frequencies cannot be set"
        " — load the driver intel_uncore_frequency, or leave the limits out"
    )
    later = effects(occupancy(uncore_config(), ("5", "high")), Hardware())
    assert later.warnings == found.warnings, "a class that gets cpus is no other reason"


def test_a_pool_without_enough_fast_cpus_is_a_misfit() -> None:
    fast = config(cpuClasses=[{"name": "low"}, {"name": "fast", "maxFreq": "3GHz"}])
    suitable = suitable_cpus("fast", fast, MACHINE)
    assert str(suitable) == "0-6"
    pools = [0x0F, 0xF0, 0xFF]
    assert misfits(pools, 4, suitable) == (0, 1, 0)
    assert misfits(pools, 3, suitable) == ()
    assert suitable_cpus(None, fast, MACHINE) == suitable_cpus("low", fast, MACHINE)
    assert str(suitable_cpus("low", fast, MACHINE)) == "0-7"

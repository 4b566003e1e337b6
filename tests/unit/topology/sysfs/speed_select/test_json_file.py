"""Speed Select as JSON: OVERRIDE_SST, and what snapshots keep of it."""

import json
from dataclasses import replace

import pytest

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, SocketId, SpeedSelect
from pinfold.topology.sets.base_errors import TopologyError
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.overrides import override_machine, parse_overrides
from pinfold.topology.sysfs.speed_select.json_file import parse_speed_select, speed_select_text

MACHINE = machine_from_spec("socket:2 core:8")
GIVEN = {
    "supported": True,
    "clos_count": 4,
    "packages": [
        {"id": 0, "cpus": "0-7", "tf_supported": True, "cp_supported": True, "max_hp_cpus": 2},
        {"id": 1, "cpus": "8-15", "tf_supported": True, "cp_supported": True, "max_hp_cpus": 2},
    ],
}


def overridden(document: object, machine: Machine = MACHINE) -> Machine:
    text = document if isinstance(document, str) else json.dumps(document)
    return override_machine(machine, parse_overrides({"OVERRIDE_SST": text}))


def package(**keys: object) -> dict[str, object]:
    return {"supported": True, "packages": [{"id": 0, "cpus": "0-7", **keys}]}


def test_two_packages_that_could_and_do_not_yet() -> None:
    machine = overridden(GIVEN)
    assert machine.speed_select == tuple(
        SpeedSelect(
            socket=SocketId(socket),
            cpus=cpus,
            supports_turbo_frequency=True,
            supports_core_power=True,
            clos_of=dict.fromkeys(cpus, 0),
            high_priority_cpus=2,
        )
        for socket, cpus in enumerate((CpuSet.parse("0-7"), CpuSet.parse("8-15")))
    )
    assert machine.warnings == ()


def test_the_state_of_a_package_is_read_as_well() -> None:
    classes = [
        {"id": 0, "min_freq": 3800000, "max_freq": 3900000, "cpus": "2-3"},
        {"id": 3, "min_freq": 800000, "max_freq": 2900000, "cpus": "0-1,4-7"},
    ]
    (domain,) = overridden(
        package(tf_enabled=True, cp_enabled=True, cp_priority="ordered", bf_cpus="1", clos=classes)
    ).speed_select
    assert (domain.has_turbo_frequency, domain.has_core_power) == (True, True)
    assert domain.clos_order == (0, 1, 2, 3)
    assert domain.clos_khz == {0: (3800000, 3900000), 3: (800000, 2900000)}
    assert {cpu for cpu, clos in domain.clos_of.items() if clos == 0} == {2, 3}
    assert str(domain.base_frequency_cpus) == "1"


def test_punits_are_domains_that_take_from_their_package_what_they_do_not_say() -> None:
    punits = [
        {"id": 2, "cpus": "4-7", "max_hp_cpus": 3, "guaranteed_hp_cpus": 1, "tf_supported": False},
        {"id": 0, "cpus": "0-3"},
    ]
    found = overridden(package(punits=punits, tf_supported=True, max_hp_cpus=2)).speed_select
    assert [
        (one.domain, str(one.cpus), one.supports_turbo_frequency, one.high_priority_cpus)
        for one in found
    ] == [(0, "0-3", True, 2), (2, "4-7", False, 1)]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({**GIVEN, "supported": False}, id="not supported"),
        pytest.param({"packages": GIVEN["packages"]}, id="support not claimed"),
        pytest.param({"supported": True}, id="no package"),
        pytest.param(package(cpus="100-107"), id="no cpu of it is online"),
    ],
)
def test_documents_that_say_there_is_none(document: object) -> None:
    real = replace(MACHINE, speed_select=(SpeedSelect(socket=SocketId(0), cpus=MACHINE.online),))
    assert overridden(document, real).speed_select == ()


def test_an_empty_variable_leaves_what_was_found() -> None:
    real = replace(MACHINE, speed_select=(SpeedSelect(socket=SocketId(0), cpus=MACHINE.online),))
    assert overridden(" ", real) == real


def test_cpus_that_are_offline_are_left_out() -> None:
    (domain,) = overridden(package(cpus="6-7,16-17", bf_cpus="7,16")).speed_select
    assert (str(domain.cpus), dict(domain.clos_of)) == ("6-7", {6: 0, 7: 0})
    assert str(domain.base_frequency_cpus) == "7"


def test_unknown_keys_are_ignored() -> None:
    assert overridden({**package(pp_level=1), "vendor": {"x": []}}).speed_select


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "OVERRIDE_SST: .* — it holds a JSON object"),
        ("[" * 100_000, "OVERRIDE_SST: .* — it holds a JSON object"),
        ("[]", r"OVERRIDE_SST: \[\] is not an object"),
        ({"supported": "yes"}, "OVERRIDE_SST: supported: 'yes' — write true or false"),
        ({"supported": True, "packages": {}}, "OVERRIDE_SST: packages is not a list — "),
        ({"supported": True, "packages": [1]}, r"OVERRIDE_SST.packages\[0\]: 1 is not an object"),
        ({"supported": True, "packages": [{"cpus": "0"}]}, "id: None — write a whole number"),
        ({"supported": True, "clos_count": 17}, "clos_count: 17 — at most 16"),
        (package(cpus=""), r"packages\[0\]: no cpus — write them as in"),
        (package(cpus="a"), r"packages\[0\]: cpus: 'a' is not a list of ids"),
        (package(cpus=7), r"packages\[0\]: cpus: 7 — put it in quotes"),
        (package(max_hp_cpus=-1), "max_hp_cpus: -1 — write a whole number from 0"),
        (package(max_hp_cpus=True), "max_hp_cpus: True — write a whole number from 0"),
        (package(cp_priority="odd"), "cp_priority: 'odd' — ordered or proportional"),
        (package(clos=[{"id": 4}]), r"packages\[0\].clos\[0\]: id: 4 — clos_count is 4"),
        (
            package(punits=[{"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "3-7"}]),
            r"punits\[1\]: cpus 3 again — list each cpu once",
        ),
        (
            package(punits=[{"id": 0, "cpus": "0-3"}, {"id": 0, "cpus": "4-7"}]),
            r"punits\[1\]: id again — give each its own",
        ),
    ],
)
def test_errors_name_the_place(document: object, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        overridden(document)


def test_a_document_that_is_written_is_read_as_the_same() -> None:
    domains = (
        SpeedSelect(
            socket=SocketId(0),
            cpus=CpuSet.parse("0-3"),
            supports_core_power=True,
            has_core_power=True,
            clos_order=(0, 1, 2, 3),
            clos_of={0: 0, 1: 0, 2: 3, 3: 2},
            clos_khz={0: (3_800_000, 3_800_000), 1: (0, 25_500_000)},
            base_frequency_cpus=CpuSet.parse("1"),
        ),
        SpeedSelect(
            socket=SocketId(0),
            domain=2,
            cpus=CpuSet.parse("4-7"),
            supports_turbo_frequency=True,
            has_turbo_frequency=True,
            clos_of=dict.fromkeys(range(4, 8), 1),
            high_priority_cpus=2,
        ),
        SpeedSelect(socket=SocketId(3), cpus=CpuSet.parse("8-9"), clos_of={8: 0, 9: 0}),
    )
    assert parse_speed_select("speedselect.json", speed_select_text(domains)) == domains


def test_a_document_of_no_domains_is_read_as_none() -> None:
    assert parse_speed_select("speedselect.json", speed_select_text(())) == ()

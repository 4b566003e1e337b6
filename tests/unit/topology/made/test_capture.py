"""Capturing a machine: reading the snapshot back gives the very machine."""

import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.topology.made.snapshot import Recorder, capture, pack
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import SocketId, SpeedSelect
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import discover, read_machine
from pinfold.topology.sysfs.speed_select.json_file import speed_select_text
from pinfold.topology.sysfs.speed_select_source import SNAPSHOT_FILE, ask_hardware
from pinfold.topology.sysfs.sysfs_tree import open_tree
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of, write_tree

SPECS = ["core:1", "socket:2 numa:2 core:2 thread:2", "die:2 l3:2 cluster:2 core:2 isolated:0"]


@pytest.mark.parametrize("spec", SPECS)
def test_a_captured_tree_shows_the_same_machine(tmp_path: Path, spec: str) -> None:
    machine = machine_from_spec(spec)
    write_tree(machine_snapshot(machine), str(tmp_path))
    found, snapshot = capture(open_tree(str(tmp_path)))
    assert found == machine
    assert discover(tree_of(snapshot)) == machine


def test_this_machine_captured_and_read_back_is_the_same(tmp_path: Path) -> None:
    found, snapshot = capture(open_tree("/"))
    file = tmp_path / "here.tar.xz"
    file.write_bytes(pack(snapshot, file.name))
    assert read_machine(str(file)) == found
    assert found.online


def test_a_capture_of_a_capture_is_the_same_archive(tmp_path: Path) -> None:
    _, snapshot = capture(open_tree("/"))
    first = pack(snapshot, "a.tar.xz")
    (tmp_path / "a.tar.xz").write_bytes(first)
    _, again = capture(open_tree(str(tmp_path / "a.tar.xz")))
    assert pack(again, "a.tar.xz") == first


def test_links_and_folders_of_offline_cpus_and_empty_nodes_are_kept(tmp_path: Path) -> None:
    files = dict(machine_snapshot(machine_from_spec("core:2")).files)
    write_tree(machine_snapshot(machine_from_spec("core:2")), str(tmp_path))
    (tmp_path / "sys/devices/system/cpu/cpu7").mkdir()
    (tmp_path / "sys/devices/system/node/node5").mkdir()
    (tmp_path / "sys/devices/system/cpu/present").unlink()
    device = tmp_path / "sys/devices/pci0000:00/0000:00:01.0/net/eth0"
    device.mkdir(parents=True)
    (device.parent.parent / "numa_node").write_text("0")
    (device.parent.parent / "class").write_text("0x020000")
    for bus, target in (("class/net", device), ("bus/pci/devices", device.parent.parent)):
        (tmp_path / "sys" / bus).mkdir(parents=True)
        (tmp_path / "sys" / bus / target.name).symlink_to(target)
    found, snapshot = capture(open_tree(str(tmp_path)))
    assert str(found.present) == "0-1,7"
    assert [node.id for node in found.numa_nodes] == [0, 5]
    assert [device.name for device in found.devices] == ["eth0", "0000:00:01.0"]
    assert discover(tree_of(snapshot)) == found
    assert files["sys/devices/system/cpu/online"] == snapshot.files["sys/devices/system/cpu/online"]


DOMAIN = SpeedSelect(
    socket=SocketId(0),
    cpus=CpuSet.parse("0-1"),
    has_core_power=True,
    supports_core_power=True,
    clos_order=(0, 1, 2, 3),
    clos_of={0: 0, 1: 3},
    clos_khz={0: (3_800_000, 3_800_000), 3: (800_000, 2_900_000)},
)


def with_speed_select(folder: Path, text: str) -> None:
    write_tree(machine_snapshot(machine_from_spec("core:2")), str(folder))
    (folder / "pinfold").mkdir()
    (folder / "pinfold/speedselect.json").write_text(text)


def test_speed_select_is_kept_in_archives_and_captures_of_them(tmp_path: Path) -> None:
    with_speed_select(tmp_path, speed_select_text((DOMAIN,)))
    found, snapshot = capture(open_tree(str(tmp_path)))
    assert found.speed_select == (DOMAIN,)
    assert found.warnings == ()
    file = tmp_path / "here.tar.xz"
    file.write_bytes(pack(snapshot, file.name))
    assert read_machine(str(file)) == found


def test_what_hardware_said_is_kept_as_a_file() -> None:
    recorder = Recorder(tree_of(machine_snapshot(machine_from_spec("core:2"))))
    discover(recorder)
    recorder.keep(SNAPSHOT_FILE, speed_select_text((DOMAIN,)))
    assert discover(tree_of(recorder.snapshot())).speed_select == (DOMAIN,)


def test_a_snapshot_with_broken_speed_select_is_a_machine_with_a_warning(tmp_path: Path) -> None:
    with_speed_select(tmp_path, '{"supported": 1}')
    machine = read_machine(str(tmp_path))
    assert machine.speed_select == ()
    (warning,) = machine.warnings
    assert warning.startswith(f"{tmp_path}/pinfold/speedselect.json: supported: 1 — ")


def test_the_hardware_is_asked_only_where_it_has_the_device(tmp_path: Path) -> None:
    machine = machine_from_spec("core:2")
    assert ask_hardware(machine, str(tmp_path / "absent")) is machine
    (warning,) = ask_hardware(machine, "/dev/null").warnings
    assert warning.endswith(" — Speed Select is not read")


def test_the_command_writes_an_archive_that_the_other_commands_read(tmp_path: Path) -> None:
    file = tmp_path / "here.tar.xz"
    result = CliRunner().invoke(main, ["capture", str(file)])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{file}: ")
    with tarfile.open(file) as tar:
        names = tar.getnames()
        assert {member.mtime for member in tar} == {0}
    assert names == sorted(names)
    assert {name.partition("/")[0] for name in names} == {"proc", "sys"}
    assert not [name for name in names if name.endswith(("cmdline", "address", "uevent"))]
    shown = CliRunner().invoke(main, ["topology", "--sysfs-root", str(file), "-o", "json"])
    assert shown.exit_code == 0, shown.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("here.zip", "unknown kind of archive — name it *.tar.xz or *.tar.gz or *.tar"),
        ("absent/here.tar.xz", "no such file or directory — name a file in a folder"),
    ],
)
def test_a_bad_name_is_an_error_and_leaves_nothing(tmp_path: Path, name: str, message: str) -> None:
    result = CliRunner().invoke(main, ["capture", str(tmp_path / name)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []

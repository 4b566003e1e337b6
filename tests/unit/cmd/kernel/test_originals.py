"""Whether what a file says was there before is believed."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.cmd.kernel.originals import Original, Originals

LOG = logging.getLogger("test_originals")
CPU = "sys/devices/system/cpu"
IRQ = "proc/irq/4/smp_affinity_list"


def read(folder: Path) -> Originals:
    return Originals(folder, "boot", LOG, lambda: 1234.5)


def write(folder: Path, texts: dict[str, str]) -> Path:
    file = folder / "originals.json"
    originals = {path: {"text": text} for path, text in texts.items()}
    file.write_text(json.dumps({"boot_id": "boot", "originals": originals}))
    return file


@pytest.mark.parametrize(
    "path",
    [
        f"{CPU}/cpu3/cpufreq/scaling_governor",
        f"{CPU}/cpufreq/policy128/energy_performance_preference",
        f"{CPU}/cpu4095/cpuidle/state2/disable",
        f"{CPU}/intel_uncore_frequency/package_01_die_00/max_freq_khz",
        "speedselect/clos/0/1/17",
    ],
)
def test_every_file_of_a_knob_is_remembered(path: str, tmp_path: Path) -> None:
    originals = read(tmp_path)
    originals.keep(path, Original(text="1"))
    originals.keep(IRQ, Original(text="0-3", owner="eth0"))
    originals.save()
    assert read(tmp_path).by_path == originals.by_path
    assert [one.name for one in tmp_path.iterdir()] == ["originals.json"]
    assert (tmp_path / "originals.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("proc/irq/../../../victim", "0-3"),
        ("/etc/passwd", "0-3"),
        ("../victim", "1"),
        (f"{CPU}/cpu0/online", "0"),
        (f"{CPU}/cpu0/../cpu1/cpufreq/scaling_governor", "performance"),
        (f"{CPU}/cpu0/cpufreq/scaling_governor\n", "performance"),
        (f"{CPU}/cpu0/cpufreq/scaling_governor", "x" * 1000),
        ("proc/irq/default_smp_affinity", "0-3"),
        (IRQ, "all of them"),
    ],
)
def test_what_no_knob_can_have_is_not_believed(
    path: str, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {path: text, "proc/irq/5/smp_affinity_list": "1"})
    assert read(tmp_path).by_path == {}
    (record,) = caplog.records
    assert "1 files that are none of ours, such as " in record.getMessage()
    assert [one.name for one in tmp_path.iterdir()] == ["originals.json.corrupt-1234"]


def break_text(file: Path) -> None:
    file.write_text("{")


def nest(file: Path) -> None:
    file.write_text("[" * 100_000)


def open_file(file: Path) -> None:
    file.chmod(0o666)


def open_folder(file: Path) -> None:
    file.parent.chmod(0o777)


def make_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(break_text, "Input data was truncated", id="a broken file"),
        pytest.param(nest, "originals.json: ", id="a file that is nested too deep"),
        pytest.param(open_file, "anybody may have written it", id="a file anybody can write"),
        pytest.param(open_folder, "others may have put it into its folder", id="an open folder"),
        pytest.param(make_link, "a symbolic link", id="a symbolic link"),
        pytest.param(make_pipe, "not a file", id="a pipe"),
    ],
)
def test_a_file_that_may_be_somebody_elses_is_put_aside(
    spoil: Callable[[Path], None],
    reason: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    spoil(write(folder, {IRQ: "0-3"}))
    assert read(folder).by_path == {}
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert "put aside as originals.json.corrupt-1234; nothing is remembered" in record.getMessage()
    assert not (folder / "originals.json").exists()
    assert os.path.lexists(folder / "originals.json.corrupt-1234")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["originals.json", "."], ids=["the file", "its folder"])
def test_a_file_of_another_user_is_not_believed(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {IRQ: "0-3"})
    os.chown(tmp_path / name, 12345, 12345)
    assert read(tmp_path).by_path == {}
    assert len(caplog.records) == 1


def test_a_sticky_folder_is_as_good_as_our_own(tmp_path: Path) -> None:
    write(tmp_path, {IRQ: "0-3"})
    tmp_path.chmod(0o1777)
    assert read(tmp_path).by_path == {IRQ: Original(text="0-3")}


def test_what_is_written_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "originals.new").symlink_to(victim)
    originals = read(tmp_path)
    originals.keep(IRQ, Original(text="0-3"))
    originals.save()
    assert victim.read_text() == "precious"
    assert read(tmp_path).by_path == originals.by_path

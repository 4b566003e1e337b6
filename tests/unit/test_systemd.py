import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "systemd").glob("*.service"))
EXPOSURE_MAX = 20
"""Tenths of the scale of systemd-analyze, whose "OK" begins below 50."""

analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def with_an_existing_program(unit: Path, folder: Path) -> Path:
    copy = folder / unit.name
    text = unit.read_text()
    assert "ExecStart=/usr/bin/pinfoldd" in text
    copy.write_text(text.replace("/usr/bin/pinfoldd", "/bin/true"))
    return copy


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_every_line(unit: Path, tmp_path: Path) -> None:
    # Unknown fields are complaints on standard error, not a status.
    checked = run("verify", "--man=no", str(with_an_existing_program(unit, tmp_path)))
    assert (checked.returncode, checked.stderr) == (0, "")


@analyze
def test_the_check_notices_an_unknown_field(tmp_path: Path) -> None:
    copy = with_an_existing_program(UNITS[0], tmp_path)
    copy.write_text(copy.read_text().replace("ProtectHome=", "ProtectHomes="))
    assert "ProtectHomes" in run("verify", "--man=no", str(copy)).stderr


@analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_little_of_the_machine_is_exposed(unit: Path, tmp_path: Path) -> None:
    copy = with_an_existing_program(unit, tmp_path)
    checked = run(
        "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(copy)
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_every_line_of_hardening_has_its_reason(unit: Path) -> None:
    """A comment stands above each line, or above the run of lines it belongs to."""
    is_explained = False
    for line in unit.read_text().splitlines():
        if line.startswith("#"):
            is_explained = True
        elif not line or line.startswith("["):
            is_explained = line in ("[Unit]", "[Install]")
        else:
            assert is_explained, f"{unit.name}: {line} has no reason"


def test_reload_needs_no_program_but_the_shell() -> None:
    unit = (ROOT / "systemd" / "pinfoldd.service").read_text()
    (reload,) = [line for line in unit.splitlines() if line.startswith("ExecReload=")]
    command = shlex.split(reload.removeprefix("ExecReload="))
    assert command[0] == "/bin/sh"
    # Where no program can be found, only what the shell itself knows works.
    # Whoever runs the tests may ignore the signal, as nohup does, and children inherit that.
    sleep = ["/usr/bin/env", "--default-signal=HUP", "/bin/sleep", "60"]
    with subprocess.Popen(sleep) as daemon:
        until = time.monotonic() + 60
        while Path(f"/proc/{daemon.pid}/comm").read_text() != "sleep\n":
            assert time.monotonic() < until
            time.sleep(0.01)
        told = subprocess.run(
            command, env={"PATH": "/nonexistent", "MAINPID": str(daemon.pid)}, check=False
        )
        if told.returncode:
            daemon.kill()
        assert (told.returncode, daemon.wait(60)) == (0, -signal.SIGHUP)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("Type=notify", id="ready is said, not guessed"),
        pytest.param("Before=kubelet.service", id="before any pod starts"),
        pytest.param("After=containerd.service crio.service", id="after the runtime"),
        pytest.param("Restart=always", id="restarting is always safe"),
        pytest.param("StartLimitIntervalSec=0", id="trying never ends"),
        pytest.param("RestrictAddressFamilies=AF_UNIX", id="nobody is spoken to over IP"),
        pytest.param("ProtectKernelTunables=yes", id="the kernel is left alone unless asked for"),
    ],
)
def test_the_daemon_starts_in_its_place(line: str) -> None:
    assert line in (ROOT / "systemd" / "pinfoldd.service").read_text().splitlines()

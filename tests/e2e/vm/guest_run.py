"""Runs of the emulated machine: a script of the guest's folder, and the files it left."""

import platform
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import debian, guestfs, machine, payload


def run_in_guest(
    script: str, within_seconds: float, folder: Path, say: Callable[[str], None]
) -> dict[str, bytes]:
    """The files that a script left in the guest, by name. Skips where there can be no guest."""
    if platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()}: the emulator is unpacked for x86-64")
    reason = debian.missing()
    if reason:
        pytest.skip(reason)
    files = guestfs.built()
    frozen = machine.frozen_machine(files, say)
    payload.write_payload(files, folder / "payload.tar", script)
    try:
        return _run(files, frozen, folder, within_seconds)
    except machine.MachineError as error:
        say(f"the frozen machine did not serve, one is booted instead: {error}")
        shutil.rmtree(frozen.folder, ignore_errors=True)
        # In a folder of its own: what the first one said on its console is not to be read again.
        again = folder / "again"
        again.mkdir()
        shutil.move(folder / "payload.tar", again)
        return _run(files, None, again, within_seconds)


def fail_with_logs(results: dict[str, bytes]) -> None:
    """Fails the test with the ends of the texts that a script left."""
    texts = (results[name][-8000:] for name in sorted(results) if not name.endswith(".tar"))
    said = "\n----\n".join(one.decode(errors="replace") for one in texts)
    pytest.fail(f"the guest's script failed:\n{said}")


def _run(
    files: guestfs.GuestFiles, frozen: machine.Frozen | None, folder: Path, within_seconds: float
) -> dict[str, bytes]:
    """The files the guest left, from a thawed machine or from a booted one.

    Raises `MachineError` when the guest does not begin or its kernel gets stuck.
    """
    run = machine.Machine(files, folder, folder / "payload.tar")
    try:
        if frozen is not None:
            run.thaw(frozen)
            run.wait_for("guest: started", machine.THAW_WITHIN_SECONDS)
        else:
            run.boot(folder, is_shared=False)
            run.wait_for("guest: started", machine.BOOT_WITHIN_SECONDS)
        run.wait_for_end(within_seconds)
    finally:
        run.end()
    with tarfile.open(run.results, "r:") as tar:
        opened = ((entry.name, tar.extractfile(entry)) for entry in tar if entry.isfile())
        return {name.removeprefix("./"): file.read() for name, file in opened if file}

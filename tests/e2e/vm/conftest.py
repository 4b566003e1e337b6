"""One run of the emulated machine, whose observations the tests of this folder judge."""

import json
import platform
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.e2e import debian, guestfs, machine, payload
from tests.e2e.pins import Pins

RUN_WITHIN_SECONDS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The pins of each running container, after each step of the guest's driver.

    `topology` is what `pinfold topology -o json` said there; `refusals` is what the runtime said of
    pods that it did not start.
    """

    topology: Mapping[str, object]
    refusals: Mapping[str, str]
    steps: Mapping[str, Mapping[str, Pins]]

    def __getitem__(self, step: str) -> Mapping[str, Pins]:
        return self.steps[step]


@pytest.fixture(scope="session")
def observations(
    tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]
) -> Observations:
    """What was seen in the guest."""
    if platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()}: the emulator is unpacked for x86-64")
    reason = debian.missing()
    if reason:
        pytest.skip(reason)
    files = guestfs.built()
    frozen = machine.frozen_machine(files, say)
    folder = tmp_path_factory.mktemp("vm")
    payload.write_payload(files, folder / "payload.tar")
    try:
        results = _run(files, frozen, folder)
    except machine.MachineError as error:
        say(f"the frozen machine did not serve, one is booted instead: {error}")
        shutil.rmtree(frozen.folder, ignore_errors=True)
        results = _run(files, None, folder)
    written = json.loads(results["observations.json"])
    if written["failure"] is not None:
        logs = (results[name].decode(errors="replace")[-8000:] for name in sorted(results))
        pytest.fail("the guest's driver failed:\n" + "\n----\n".join(logs))
    return Observations(
        topology=json.loads(results["topology.json"]),
        refusals=written["refusals"],
        steps={
            step: {name: Pins(**pins) for name, pins in containers.items()}
            for step, containers in written["steps"].items()
        },
    )


def _run(
    files: guestfs.GuestFiles, frozen: machine.Frozen | None, folder: Path
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
        run.wait_for_end(RUN_WITHIN_SECONDS)
    finally:
        run.end()
    with tarfile.open(run.results, "r:") as tar:
        opened = ((entry.name, tar.extractfile(entry)) for entry in tar if entry.isfile())
        return {name.removeprefix("./"): file.read() for name, file in opened if file}

"""Waits in the guest for a payload on the first disk, runs it, writes its results to the second.

The machine is frozen while this waits: whatever is loaded and warm by then, each run has for free.
"""

import io
import mmap
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

# Loaded for their effect: the pages are in memory when the machine is frozen.
import grpc  # noqa: F401  # pyright: ignore[reportUnusedImport]
import msgspec  # noqa: F401  # pyright: ignore[reportUnusedImport]

PAYLOAD_DISK = "/dev/vda"
RESULT_DISK = "/dev/vdb"
RUN = Path("/run/payload")
BLOCK_BYTES = 4096


def has_payload() -> bool:
    """Whether the disk begins with something; read past the page cache, as the host changes it."""
    block = mmap.mmap(-1, BLOCK_BYTES)
    disk = os.open(PAYLOAD_DISK, os.O_RDONLY | os.O_DIRECT)
    try:
        os.preadv(disk, [block], 0)
    finally:
        os.close(disk)
    return block[:1] != b"\0"


def say(text: str) -> None:
    """Prints a line for the host to wait for."""
    uptime = Path("/proc/uptime").read_text().split()[0]
    print(f"guest: {text} at {uptime} s", flush=True)


def main() -> None:
    """Waits, unpacks, runs, reports."""
    say("waiting")
    while not has_payload():
        time.sleep(0.1)
    say("started")
    RUN.mkdir()
    with Path(PAYLOAD_DISK).open("rb") as disk, tarfile.open(fileobj=disk, mode="r:") as tar:
        tar.extractall(RUN)
    results = RUN / "results"
    results.mkdir()
    with (results / "output.txt").open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "tests.e2e.guest.driver", str(results)],
            cwd=RUN,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{RUN}:/opt/site"},
            check=False,
        )
    say(f"driver ended with {done.returncode}")
    (results / "containerd.log").write_bytes(Path("/run/node/containerd.log").read_bytes())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(results, arcname=".")
    with Path(RESULT_DISK).open("r+b") as target:
        target.write(packed.getvalue())
        os.fsync(target.fileno())
    say("finished")


main()

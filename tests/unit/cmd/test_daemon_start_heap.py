import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import ctypes, sys, threading
from pinfold.cmd.daemon_start import share_heap
if sys.argv[2] == "shared" and not share_heap():
    raise SystemExit(77)
together = threading.Barrier(4)
def allocate():
    kept = [bytearray(4096) for _ in range(64)]
    together.wait()
    del kept
threads = [threading.Thread(target=allocate) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
"""


def _heaps(folder: Path, how: str) -> int:
    path = folder / f"{how}.xml"
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(path), how], env={}, check=False)
    if done.returncode == 77:
        pytest.skip("this C library has no heaps per thread")
    assert done.returncode == 0
    return path.read_text(encoding="ascii").count("<heap ")


def test_threads_share_the_heap_of_the_process(tmp_path: Path) -> None:
    assert _heaps(tmp_path, "shared") == 1


def test_threads_have_heaps_of_their_own_otherwise(tmp_path: Path) -> None:
    assert _heaps(tmp_path, "own") > 1

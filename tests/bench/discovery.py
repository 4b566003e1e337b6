"""How long it takes to read a machine off its sysfs tree."""

import tempfile

from pinfold.topology.sysfs.discovery import read_machine
from tests.bench.sizes import Size
from tests.bench.timings import Timings
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree


def time_discovery(size: Size, samples: int) -> Timings:
    """The time of `read_machine` over a tree on disk that is in the page cache.

    Real sysfs files are made when they are read, which takes the kernel longer.
    """
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-") as root:
        write_tree(machine_snapshot(size.machine), root)
        found = read_machine(root)
        assert found.online == size.machine.online
        timings = Timings()
        for _ in range(samples):
            timings.time(lambda: read_machine(root))
    return timings

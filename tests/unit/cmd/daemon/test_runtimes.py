"""How the daemon gets to its runtime."""

from pathlib import Path

from pinfold.cmd.daemon.runtimes import find_runtime
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

ID = ContainerId("0123456789abcdef")


def test_pins_are_read_back_below_the_root_that_shows_the_host(tmp_path: Path) -> None:
    texts = {
        "proc/17/cgroup": f"0::/kubepods/{ID}\n",
        f"sys/fs/cgroup/kubepods/{ID}/cpuset.cpus": "2-3\n",
        f"sys/fs/cgroup/kubepods/{ID}/cpuset.mems": "1\n",
        "sys/devices/system/cpu/online": "0-3\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    access = find_runtime("nri", "/absent", "pinfold", "90", {}, root=str(tmp_path))
    assert access.link.read_back is not None
    assert access.link.read_back(ID, 17) == Pinning(cpus=CpuSet.of(2, 3), mems=NodeSet.of(1))

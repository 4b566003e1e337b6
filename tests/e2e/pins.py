"""What the kernel holds a process to, read back from it: never from the runtime or the daemon."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Cpus and memory nodes of a process, in the kernel's list format.

    `cpus` and `mems` are the task's own (/proc/PID/status), `cgroup_cpus` and `cgroup_mems` what
    its cpuset cgroup was told, empty where nothing was said.
    """

    cpus: str
    mems: str
    cgroup_cpus: str
    cgroup_mems: str


def read_pins(pid: int) -> Pins:
    """The pins of a live process.

    Source: proc(5), cgroups(7), Documentation/admin-guide/cgroup-v2.rst, "Cpuset".
    """
    status = Path(f"/proc/{pid}/status").read_text()
    cgroup = cpuset_cgroup(pid)
    return Pins(
        cpus=_field(status, "Cpus_allowed_list"),
        mems=_field(status, "Mems_allowed_list"),
        cgroup_cpus=(cgroup / "cpuset.cpus").read_text().strip(),
        cgroup_mems=(cgroup / "cpuset.mems").read_text().strip(),
    )


def _field(status: str, name: str) -> str:
    found = re.search(rf"^{name}:\s*(\S*)$", status, re.MULTILINE)
    if found is None:
        raise LookupError(f"/proc/PID/status: has no {name}")
    return found[1]


def cpuset_cgroup(pid: int) -> Path:
    """The folder of the cgroup that holds a process to its cpuset, of version 1 or 2."""
    hierarchies = dict[str, str]()
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            hierarchies[controller] = path
    version_1 = cpuset_mount("cgroup")
    if version_1 is not None and "cpuset" in hierarchies:
        return version_1 / hierarchies["cpuset"].lstrip("/")
    version_2 = cpuset_mount("cgroup2")
    if version_2 is not None and "" in hierarchies:
        return version_2 / hierarchies[""].lstrip("/")
    raise LookupError("no cpuset cgroup is mounted")


def cpuset_mount(kind: str) -> Path | None:
    """Where a cgroup hierarchy of this kind with the cpuset controller is mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, type_, options, *_ = line.split()
        if type_ != kind:
            continue
        if kind == "cgroup" and "cpuset" in options.split(","):
            return Path(where)
        if kind == "cgroup2" and "cpuset" in _controllers(Path(where)):
            return Path(where)
    return None


def _controllers(mount: Path) -> list[str]:
    return (mount / "cgroup.controllers").read_text().split()

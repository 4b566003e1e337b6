"""Which mounts and devices are looked at, and which hints count."""

from typing import Any

import pytest

from pinfold.policy.annotations.annotation_values import HintSource, PathFilter
from pinfold.policy.annotations.preferences import Preferences, parse_preferences
from pinfold.policy.hints.hint_filter import (
    STEPS_MAX,
    hints_of,
    is_used,
    is_wanted,
    is_worth_a_look,
)
from pinfold.policy.model.container import Container, ContainerId, Device, Mount, Pod, PodId
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

MACHINE = machine_from_spec("socket:2 numa:2 core:2")
DISK = "/sys/devices/pci0000:00/0000:00:02.0"
VOLUMES = "/var/lib/kubelet/pods/0c4f-1/volumes"


def hint(origin: HintOrigin = HintOrigin.DEVICE, provider: str = DISK, **fields: Any) -> Hint:
    fields.setdefault("cpus", CpuSet.of(0, 1))
    return Hint(provider=provider, origin=origin, **fields)


def container(*hints: Hint, **annotations: str) -> Container:
    suffix = ".topologyhints.resource-policy.nri.io/pod"
    pod = Pod(
        id=PodId("p"),
        name="web",
        annotations={
            (f"{key}{suffix}" if key != "only" else suffix[1:]): text
            for key, text in annotations.items()
        },
    )
    return Container(id=ContainerId("c"), name="nginx", pod=pod, hints=hints)


def providers(one: Container) -> list[str]:
    preferences = parse_preferences(one)
    assert preferences.problems == ()
    hints, _ = hints_of(one, preferences, MACHINE)
    return [found.provider for found in hints]


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        pytest.param("/data/models", "/models", True, id="a folder of the host"),
        pytest.param("/dev/nvme0n1", "/dev/disk", True, id="a device that is mounted"),
        pytest.param(f"{VOLUMES}/kubernetes.io~empty-dir/x", "/x", True, id="an empty-dir"),
        pytest.param(f"{VOLUMES}/kubernetes.io~csi/x/mount", "/x", True, id="a csi volume"),
        pytest.param(f"{VOLUMES}/kubernetes.io~configmap/x", "/x", False, id="a configmap"),
        pytest.param(f"{VOLUMES}/kubernetes.io~secret/x", "/x", False, id="a secret"),
        pytest.param(f"{VOLUMES}/kubernetes.io~projected/x", "/x", False, id="a token"),
        pytest.param(f"{VOLUMES}/kubernetes.io~nfs/x", "/x", False, id="a far file server"),
        pytest.param(
            "/mnt/k/pods/0c4f-1/volumes/kubernetes.io~secret/x",
            "/x",
            False,
            id="a secret below another kubelet folder",
        ),
        pytest.param("/var/lib/kubelet/pods/1/etc-hosts", "/etc/hosts", False, id="the hosts file"),
        pytest.param("/k/t", "/dev/termination-log", False, id="the termination log"),
        pytest.param("/run/sandbox/shm", "/dev/shm", False, id="shared memory"),
        pytest.param("/usr/lib/libfoo", "/opt/libfoo", False, id="libraries of the host"),
        pytest.param("/opt/foo", "/lib64/foo", False, id="libraries of the container"),
        pytest.param("/library", "/books", True, id="a folder that is only named alike"),
        pytest.param("/.nri-resource-policy/x", "/x", False, id="the policy's own folder"),
        pytest.param("tmpfs", "/tmp", False, id="a file system without a path"),
    ],
)
def test_mounts_are_looked_at_where_it_matters(
    source: str, destination: str, expected: bool
) -> None:
    assert is_worth_a_look(Mount(source=source, destination=destination)) is expected
    assert not is_worth_a_look(Mount(source=source, destination=destination, is_read_only=True))


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param(Device(path="/dev/sda", type="b", major=8), True, id="a disk"),
        pytest.param(Device(path="/dev/nvidia0", major=195), True, id="a character device"),
        pytest.param(Device(path="/x", major=195, is_writable=False), False, id="read only"),
        pytest.param(Device(path="/x", major=0), False, id="no hardware"),
        pytest.param(Device(path="/x", type="p", major=8), False, id="a named pipe"),
    ],
)
def test_devices_are_looked_at_where_they_are_used(device: Device, expected: bool) -> None:
    assert is_used(device) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", ["/m", "/d", "podresourceapi:r", "/t"]),
        ("all", ["/m", "/d", "podresourceapi:r", "/t"]),
        ("mounts", ["/m", "/t"]),
        ("devices, pod-resources", ["/d", "podresourceapi:r", "/t"]),
        ("none", ["/t"]),
        ("false", ["/t"]),
    ],
)
def test_a_container_says_which_kinds_of_hints_it_wants(text: str, expected: list[str]) -> None:
    hints = (
        hint(HintOrigin.MOUNT, "/m"),
        hint(HintOrigin.DEVICE, "/d"),
        hint(HintOrigin.POD_RESOURCES, "podresourceapi:r"),
        hint(HintOrigin.TEST, "/t"),
    )
    assert providers(container(*hints, only=text)) == expected


MOUNTED = hint(HintOrigin.MOUNT, path="/data/x", device=f"{DISK}/block/sda")
PLUGGED = hint(HintOrigin.DEVICE, device=f"{DISK}/block/sda")
GIVEN = hint(HintOrigin.POD_RESOURCES, "podresourceapi:example.com/gpu")


@pytest.mark.parametrize(
    ("one", "deny", "allow", "expected"),
    [
        pytest.param(MOUNTED, ("/data",), None, False, id="the mounted path is denied"),
        pytest.param(MOUNTED, ("/sys/devices",), None, False, id="its device is denied"),
        pytest.param(MOUNTED, ("/other",), None, True, id="another path is denied"),
        pytest.param(MOUNTED, None, ("/other",), True, id="allowing alone filters nothing"),
        pytest.param(MOUNTED, ("/data",), ("/data/x",), True, id="allowed again"),
        pytest.param(MOUNTED, ("/data",), ("/sys",), False, id="the device allows no path"),
        pytest.param(MOUNTED, ("/",), ("/data",), False, id="the path allows no device"),
        pytest.param(MOUNTED, ("/",), ("/data", "/sys"), True, id="both are allowed"),
        pytest.param(PLUGGED, ("/",), (DISK,), True, id="a device has no other path"),
        pytest.param(PLUGGED, (f"{DISK}/block",), None, False, id="below the provider"),
        pytest.param(GIVEN, ("podresourceapi:example.com/",), None, False, id="a resource"),
        pytest.param(GIVEN, ("/",), None, True, id="a resource is no path"),
    ],
)
def test_paths_are_denied_and_allowed_by_their_beginning(
    one: Hint, deny: tuple[str, ...] | None, allow: tuple[str, ...] | None, expected: bool
) -> None:
    preferences = Preferences(
        hint_deny=None if deny is None else PathFilter(deny),
        hint_allow=None if allow is None else PathFilter(allow),
    )
    assert is_wanted(one, preferences) is expected


def test_globs_match_whole_paths() -> None:
    def wanted(pattern: str) -> bool:
        return is_wanted(MOUNTED, Preferences(hint_deny=PathFilter((pattern,), is_glob=True)))

    assert not wanted("/data/*")
    assert wanted("/dat*")
    assert not wanted("/sys/devices/*/*/block/sd?")


def test_denials_are_read_from_annotations() -> None:
    deny = f"{{type: prefix, paths: ['{DISK}']}}"
    assert providers(container(PLUGGED, deny=deny)) == []
    assert providers(container(PLUGGED, deny=deny, allow=deny)) == [DISK]


def test_one_folder_counts_once_and_each_device_of_the_kubelet_by_itself() -> None:
    assert providers(container(PLUGGED, MOUNTED, GIVEN, GIVEN)) == [
        DISK,
        "podresourceapi:example.com/gpu",
        "podresourceapi:example.com/gpu",
    ]


def test_a_denied_hint_does_not_stand_for_another_of_the_same_folder() -> None:
    one = container(MOUNTED, PLUGGED, deny="{type: prefix, paths: [/data]}")
    hints, _ = hints_of(one, parse_preferences(one), MACHINE)
    assert hints == (PLUGGED,)


def test_hints_are_resolved_and_what_is_odd_is_told_once() -> None:
    gone = hint(
        HintOrigin.POD_RESOURCES, "podresourceapi:r", cpus=CpuSet(), numa_nodes=NodeSet.of(9)
    )
    near = hint(
        HintOrigin.POD_RESOURCES, "podresourceapi:r", cpus=CpuSet(), numa_nodes=NodeSet.of(3)
    )
    hints, problems = hints_of(container(gone, gone, near), Preferences(), MACHINE)
    assert [str(one.cpus) for one in hints] == ["6-7"]
    assert [str(problem) for problem in problems] == [
        "topology hint podresourceapi:r of default/web/nginx:"
        " there is no NUMA node 9 — NUMA nodes are 0-3"
    ]
    assert not any(problem.is_fatal for problem in problems)


def test_kinds_of_hints_that_were_not_found_are_none() -> None:
    preferences = Preferences(hint_sources=frozenset({HintSource.MOUNTS}))
    assert hints_of(container(), preferences, MACHINE) == ((), ())


@pytest.mark.parametrize(
    "globs",
    [
        pytest.param(", ".join(f"'*{number}*/*'" for number in range(300)), id="many"),
        pytest.param("'" + "[a-z]" * 95 + "'", id="one of many classes"),
    ],
)
def test_paths_that_are_dear_to_look_up_are_left_out_and_reported(globs: str) -> None:
    one = container(
        *(hint(provider=f"{DISK}/{number}") for number in range(20)),
        deny=f"type: glob\npaths: ['{DISK}/*', {globs}]",
    )
    hints, (problem,) = hints_of(one, parse_preferences(one), MACHINE)
    assert len(hints) == 20
    assert "allow and deny of topologyhints are left out" in problem.what
    assert f"at most {STEPS_MAX} steps" in problem.fix


def test_a_few_globs_are_looked_up_for_many_hints() -> None:
    hints = [hint(provider=f"{DISK}/{number}") for number in range(64)]
    assert providers(container(*hints, deny=f"type: glob\npaths: ['{DISK}/?']")) == [
        f"{DISK}/{number}" for number in range(10, 64)
    ]

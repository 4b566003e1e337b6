"""Roots: directories, copies of /sys and archives of every make; only an unreadable one fails."""

import gzip
import io
import os
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from pinfold.topology.made.snapshot import SysfsSnapshot, pack
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.base_errors import TopologyError
from pinfold.topology.sysfs import archive, sysfs_tree
from pinfold.topology.sysfs.discovery import read_machine
from pinfold.topology.sysfs.sysfs_tree import SysfsTree, open_tree
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

MACHINE = machine_from_spec("socket:2 core:2 thread:2")
SNAPSHOT = machine_snapshot(MACHINE)


def written(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    write_tree(SNAPSHOT, str(folder))
    return folder


def test_a_directory_holds_sys_and_proc(tmp_path: Path) -> None:
    assert read_machine(str(written(tmp_path))) == MACHINE


def test_a_tree_that_was_opened_does_not_hold_the_names_of_thousands_of_cpus(
    tmp_path: Path,
) -> None:
    """A daemon has several open for as long as it runs."""
    for cpu in range(1000):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}").mkdir(parents=True)
    tracemalloc.start()
    try:
        tree = open_tree(str(tmp_path))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20_000
    assert len(tree.names("sys/devices/system/cpu")) == 1000


def test_a_tree_remembers_few_directories_and_follows_the_same_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysfs_tree, "_DIRECTORIES_MAX", 3)
    root = written(tmp_path / "root")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("hush")
    (root / "sys/out").symlink_to("../../outside")
    (root / "sys/in").symlink_to("devices/system")
    assert read_machine(str(root)) == MACHINE
    tree = open_tree(str(root))
    for number in range(10):
        (root / f"proc/{number}").mkdir(parents=True)
        (root / f"proc/{number}/cgroup").write_text(str(number))
        assert tree.read(f"proc/{number}/cgroup") == str(number)
        assert tree.read("sys/out/secret") is None
        assert tree.read("sys/in/cpu/online") == tree.read("sys/devices/system/cpu/online")
    assert tree.read("sys/in/cpu/online")


def test_links_lead_nowhere_outside_of_a_directory_that_was_listed(tmp_path: Path) -> None:
    root = written(tmp_path / "root")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("hush")
    (root / "sys/out").symlink_to("../../outside")
    (root / "sys/in").symlink_to("devices/system")
    for tree in (open_tree(str(root)), open_tree(f"{root}/sys")):
        assert tree.names("sys") == ["devices", "in", "out"]
        assert tree.names("sys/in") == ["cpu", "node"]
        assert tree.names("sys/out") == []
        assert tree.read("sys/in/cpu/online") == tree.read("sys/devices/system/cpu/online")
        assert tree.read("sys/out/secret") is None
        assert tree.read("sys/in/../../../../outside/secret") is None
        assert tree.read("sys/devices/../out/secret") is None


def test_a_directory_that_comes_later_is_found(tmp_path: Path) -> None:
    root = written(tmp_path)
    tree = open_tree(str(root))
    assert tree.read("proc/7/cgroup") is None
    (root / "proc/7").mkdir(parents=True)
    (root / "proc/7/cgroup").write_text("0::/")
    assert tree.read("proc/7/cgroup") == "0::/"


def test_a_root_may_be_a_sys_directory_itself(tmp_path: Path) -> None:
    root = written(tmp_path) / "sys"
    assert read_machine(str(root)) == MACHINE
    assert read_machine(f"{root}/") == MACHINE
    assert open_tree(str(root)).read("proc/meminfo") is None


@pytest.mark.parametrize("name", ["m.tar.xz", "m.tar.gz", "m.tar"])
def test_archives_are_read_without_unpacking(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(pack(SNAPSHOT, name))
    assert read_machine(str(file)) == MACHINE
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("prefix", ["./", "/", "machine-7/", "./machine-7/"])
def test_archives_may_have_a_prefix(tmp_path: Path, prefix: str) -> None:
    file = tmp_path / "m.tar"
    with tarfile.open(file, "w") as tar:
        for path, text in SNAPSHOT.files.items():
            add(tar, prefix + path, text)
    assert read_machine(str(file)) == MACHINE


def test_an_archive_may_be_of_a_sys_directory(tmp_path: Path) -> None:
    file = tmp_path / "m.tar"
    with tarfile.open(file, "w") as tar:
        for path, text in SNAPSHOT.files.items():
            add(tar, path.removeprefix("sys/"), text)
    assert read_machine(str(file)) == MACHINE


def add(tar: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text.encode())
    tar.addfile(member, io.BytesIO(text.encode()))


def link(tar: tarfile.TarFile, name: str, target: str, kind: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    tar.addfile(member)


def open_tree_of(tmp_path: Path, *members: tuple[str, str] | tuple[str, str, bytes]) -> SysfsTree:
    file = tmp_path / "m.tar"
    with tarfile.open(file, "w") as tar:
        add(tar, "sys/devices/system/cpu/online", "0")
        for member in members:
            if len(member) == 3:
                link(tar, *member)
            else:
                add(tar, *member)
    return open_tree(str(file))


def test_names_that_climb_out_are_passed_over(tmp_path: Path) -> None:
    tree = open_tree_of(tmp_path, ("sys/../../etc/passwd", "x"), ("../up", "x"))
    assert tree.names("") == ["sys"]
    assert tree.names("sys") == ["devices"]


def test_links_are_followed_inside_the_archive_only(tmp_path: Path) -> None:
    sym = tarfile.SYMTYPE
    tree = open_tree_of(
        tmp_path,
        ("sys/out", "/etc/hostname", sym),
        ("sys/up", "../../../../../proc/here", sym),
        ("proc/here", "inside"),
        ("sys/top", "/proc", sym),
        ("sys/one", "two", sym),
        ("sys/two", "one", sym),
        ("sys/self/deep", "..", sym),
    )
    assert tree.read("sys/out") is None
    assert tree.read("sys/up") == "inside"
    assert tree.read("sys/top/here") == "inside"
    assert tree.resolve("sys/top/here") == "proc/here"
    assert tree.read("sys/one") is None
    assert tree.resolve("sys/one") is None
    assert tree.resolve("sys/self/deep/self") == "sys/self"
    assert tree.read("sys/self") is None
    assert tree.read("sys/devices/system/cpu/online/below") is None


def test_other_members_are_passed_over(tmp_path: Path) -> None:
    tree = open_tree_of(
        tmp_path,
        ("sys/pipe", "", tarfile.FIFOTYPE),
        ("sys/hard", "sys/devices/system/cpu/online", tarfile.LNKTYPE),
        ("sys/devices/system/cpu/online/below", "a file below a file"),
    )
    assert tree.names("sys") == ["devices"]
    assert tree.read("sys/devices/system/cpu/online") == "0"


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_ARCHIVE_BYTES", 2**20)
    for name, content in (("m.tar.gz", gzip.compress(bytes(2**21))), ("m.tar", bytes(2**21))):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(TopologyError, match="unpacks to more than"):
            read_machine(str(file))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        b"\xfd7zXZ\0damaged",
        b"\x1f\x8bdamaged",
        pack(SNAPSHOT, "m.tar.xz")[:500],
        pack(SNAPSHOT, "m.tar.gz")[:500],
    ],
    ids=["empty", "text", "damaged xz", "damaged gz", "half an xz", "half a gz"],
)
def test_a_damaged_archive_is_an_error_that_says_so(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "m.tar.xz"
    file.write_bytes(content)
    with pytest.raises(TopologyError, match=r"m\.tar\.xz: .* — give a") as caught:
        read_machine(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_an_unreadable_root_is_an_error_that_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TopologyError, match=r": .* — give a directory or"):
        read_machine(str(tmp_path / name))


def test_links_of_a_directory_never_resolve_outside_it(tmp_path: Path) -> None:
    root = written(tmp_path / "root")
    (root / "sys/class").mkdir()
    (tmp_path / "outside").mkdir()
    (root / "sys/class/net").symlink_to(tmp_path / "outside")
    (root / "sys/class/gone").symlink_to("nowhere")
    tree = open_tree(str(root))
    assert tree.resolve("sys/class/net") is None
    assert tree.resolve("sys/class/gone") is None
    assert tree.resolve("sys/devices/../devices") == "sys/devices"


def test_files_longer_than_a_page_are_read_whole(tmp_path: Path) -> None:
    root = written(tmp_path)
    text = ",".join(str(cpu) for cpu in range(0, 8000, 2))
    (root / "sys/devices/system/cpu/possible").write_text(text)
    assert open_tree(str(root)).read("sys/devices/system/cpu/possible") == text
    assert len(read_machine(str(root)).possible) > 3000


def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path) -> None:
    root = written(tmp_path)
    cpu = root / "sys/devices/system/cpu"
    (cpu / "possible").unlink()
    (cpu / "possible").mkdir()
    (cpu / "isolated").unlink()
    os.mkfifo(cpu / "isolated")
    assert read_machine(str(root)) == MACHINE


def test_equal_snapshots_give_equal_bytes() -> None:
    shuffled = SysfsSnapshot(
        files=dict(sorted(SNAPSHOT.files.items(), reverse=True)), folders=SNAPSHOT.folders
    )
    for name in ("m.tar.xz", "m.tar.gz", "m.tar"):
        assert pack(SNAPSHOT, name) == pack(shuffled, name)
    with pytest.raises(TopologyError, match=r"m\.zip: unknown kind of archive"):
        pack(SNAPSHOT, "m.zip")


def test_a_pipe_or_a_device_is_no_root(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (f"{tmp_path}/pipe", "/dev/zero"):
        with pytest.raises(TopologyError, match=f"^{path}: not a regular file — give"):
            open_tree(path)


def test_an_empty_root_is_named() -> None:
    with pytest.raises(TopologyError, match=r"^sysfs root: no name at all — give a directory"):
        open_tree("")


def test_links_of_a_directory_stay_inside_it(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "online").write_text("0-7\n")
    root = written(tmp_path / "root")
    cpu = root / "sys" / "devices" / "system" / "cpu"
    (cpu / "outside").symlink_to("/etc/hostname")
    (cpu / "climbing").symlink_to("../../../../../secret/online")
    (cpu / "elsewhere").symlink_to(tmp_path / "secret")
    (cpu / "twice").symlink_to("outside")
    (cpu / "inside").symlink_to("online")
    (cpu / "folder").symlink_to("../cpu")
    (root / "sys" / "link").symlink_to(tmp_path / "secret")
    for top in (str(root), str(root / "sys")):
        tree = open_tree(top)
        place = "sys/devices/system/cpu"
        assert tree.read(f"{place}/outside") is None
        assert tree.read(f"{place}/twice") is None
        assert tree.read(f"{place}/climbing") is None
        assert tree.read(f"{place}/elsewhere/online") is None
        assert tree.read(f"{place}/../../../../secret/online") is None
        assert tree.read("sys/link/online") is None
        assert tree.names(f"{place}/elsewhere") == []
        assert tree.names(f"{place}/..") == ["cpu", "node"]
        assert tree.names("sys/../..") == tree.names("sys/devices/../../..") == []
        assert tree.read(f"{place}/inside") == tree.read(f"{place}/online") == "0-7\n"
        assert tree.read(f"{place}/folder/online") == "0-7\n"
        assert tree.names(f"{place}/folder") == tree.names(place)


def test_a_root_may_itself_be_a_link(tmp_path: Path) -> None:
    written(tmp_path / "root")
    (tmp_path / "link").symlink_to("root")
    assert read_machine(f"{tmp_path}/link") == MACHINE

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pinfold.nri.cri.cri_link import ListenPlace, ListenPlaceError

RUNTIME = "/run/containerd/containerd.sock"


def listening(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen()
    return sock


def made(place: ListenPlace) -> socket.socket:
    """The proxy's socket, published as the proxy does it."""
    sock = listening(place.prepare())
    place.publish()
    return sock


def test_the_socket_is_ours_alone_in_a_folder_that_is_ours_alone(tmp_path: Path) -> None:
    place = ListenPlace(str(tmp_path / "made/here/cri.sock"), RUNTIME)
    with made(place):
        assert place.path.stat().st_mode & 0o777 == 0o600
        assert place.path.parent.stat().st_mode & 0o777 == 0o700
        assert os.listdir(place.path.parent) == ["cri.sock"], "all that a kill leaves"
        place.close()
    assert os.listdir(place.path.parent) == []


def test_a_kubelets_address_is_a_path(tmp_path: Path) -> None:
    place = ListenPlace(f"unix://{tmp_path}/cri.sock", RUNTIME)
    assert place.path == tmp_path / "cri.sock"


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "cri.sock"
    listening(path).close()
    before = path.stat().st_ino
    with made(ListenPlace(str(path), RUNTIME)):
        assert path.stat().st_ino != before
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_the_socket_of_another_that_came_later_is_left(tmp_path: Path) -> None:
    path = tmp_path / "cri.sock"
    place = ListenPlace(str(path), RUNTIME)
    with made(place):
        path.unlink()
        with listening(path):
            place.close()
            assert path.exists()


@pytest.mark.parametrize(
    "kind",
    [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM],
    ids=["as we do", "for packets", "without connections, as a log's"],
)
def test_a_socket_at_which_somebody_listens_is_left(
    tmp_path: Path, kind: socket.SocketKind
) -> None:
    path = tmp_path / "cri.sock"
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(path))
        if kind is not socket.SOCK_DGRAM:
            other.listen()
        with pytest.raises(ListenPlaceError, match=f"{path}: somebody listens there"):
            ListenPlace(str(path), RUNTIME)
    with made(ListenPlace(str(path), RUNTIME)):
        assert path.exists()


def a_file(folder: Path) -> str:
    (folder / "cri.sock").write_text("")
    return str(folder / "cri.sock")


def open_folder(folder: Path) -> str:
    inner = folder / "open"
    inner.mkdir()
    inner.chmod(0o777)
    return str(inner / "cri.sock")


def folder_in_an_open_one(folder: Path) -> str:
    inner = folder / "open"
    inner.mkdir()
    inner.chmod(0o777)
    (inner / "ours").mkdir(mode=0o700)
    return str(inner / "ours" / "cri.sock")


def link_in_an_open_folder(folder: Path) -> str:
    (folder / "ours").mkdir(mode=0o700)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "open" / "link").symlink_to(folder / "ours")
    return str(folder / "open" / "link" / "cri.sock")


def folder_of_another(folder: Path) -> str:
    return str(_given_away(folder / "theirs") / "cri.sock")


def folder_in_that_of_another(folder: Path) -> str:
    theirs = _given_away(folder / "theirs")
    # Sticky it is no better: its owner may move what is in it.
    theirs.chmod(0o1755)
    (theirs / "ours").mkdir(mode=0o700)
    return str(theirs / "ours" / "cri.sock")


def _given_away(folder: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    folder.mkdir()
    os.chown(folder, 1000, 1000)
    return folder


def same(folder: Path) -> str:
    (folder / "link.sock").symlink_to(RUNTIME)
    return str(folder / "link.sock")


def a_long_path(folder: Path) -> str:
    return str(folder / ("x" * 100))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (a_file, "something else than a socket is there"),
        (open_folder, "others may write there"),
        (folder_in_an_open_one, "/open: others may write there"),
        (link_in_an_open_folder, "/open: others may write there"),
        (folder_of_another, "/theirs: others may write there"),
        (folder_in_that_of_another, "/theirs: others may write there"),
        (same, "is the runtime's own socket"),
        (a_long_path, "too long for a socket"),
    ],
    ids=[
        "a file",
        "a folder of others",
        "a folder others may replace",
        "a link others may replace",
        "another's folder",
        "a folder another may replace",
        "the runtime's",
        "a long path",
    ],
)
def test_a_place_that_is_refused_is_named(
    tmp_path: Path, place: Callable[[Path], str], said: str
) -> None:
    path = place(tmp_path)
    with pytest.raises(ListenPlaceError, match=said) as found:
        ListenPlace(path, RUNTIME)
    assert str(found.value).startswith(f"--cri-listen: {tmp_path}")


def test_folders_that_are_made_are_ours_alone_whatever_the_mask_is(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        place = ListenPlace(str(tmp_path / "one/two/cri.sock"), RUNTIME)
    finally:
        os.umask(mask)
    for folder in (place.path.parent, place.path.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_ours_in_a_sticky_one_is_good(tmp_path: Path) -> None:
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    with made(ListenPlace(str(sticky / "ours/cri.sock"), RUNTIME)) as sock:
        assert sock.fileno() > 0

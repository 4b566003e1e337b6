"""How the daemon gets to its runtime."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinfold.cmd.daemon.runtimes import DEFAULT_SOCKET, choose_kind, find_runtime
from pinfold.nri.cri.cri_link import CriLink
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.base_errors import PinfoldError
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

NOTHING: dict[str, str] = {}
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
    assert access.link.read_back(ID, 17, None) == Pinning(cpus=CpuSet.of(2, 3), mems=NodeSet.of(1))


SERVICE = {"NOTIFY_SOCKET": "/run/x"}


@pytest.mark.parametrize(
    ("environment", "listens", "there", "is_default", "kind", "why"),
    [
        pytest.param(NOTHING, False, "answers", True, "nri", "answers", id="its socket answers"),
        pytest.param(NOTHING, True, "answers", True, "cri", "--cri-listen", id="a proxy is wanted"),
        pytest.param(
            {"NRI_PLUGIN_SOCKET": "3"}, True, "answers", True, "nri", "started us", id="its plugin"
        ),
        pytest.param(
            *(NOTHING, False, "stale", False, "nri", "its socket is at"),
            id="a stale socket was named",
        ),
        pytest.param(
            NOTHING, False, "", False, "nri", "waiting", id="one was named that is not there"
        ),
        pytest.param(SERVICE, False, "", True, "nri", "waiting", id="a service waits"),
        pytest.param(
            *(SERVICE, False, "stale", True, "nri", "its socket is at"), id="its stale socket, too"
        ),
        pytest.param(
            NOTHING, False, "", True, "embedded", "no such file", id="there is nothing here"
        ),
        pytest.param(
            *(NOTHING, False, "stale", True, "embedded", "refused"),
            id="nobody is behind its socket",
        ),
        pytest.param(
            *(NOTHING, False, "file", True, "embedded", "refused"), id="no socket has its place"
        ),
    ],
)
def test_auto_takes_the_first_that_fits_and_says_why(
    tmp_path: Path,
    environment: Mapping[str, str],
    there: str,
    kind: str,
    why: str,
    *,
    listens: bool,
    is_default: bool,
) -> None:
    nri = tmp_path / "nri.sock"
    listen = str(tmp_path / "cri.sock") if listens else None
    default = str(nri) if is_default else DEFAULT_SOCKET
    with socket.socket(socket.AF_UNIX) as runtime:
        if there == "file":
            nri.touch()
        elif there:
            runtime.bind(str(nri))
        if there == "answers":
            runtime.listen()
        chosen, reason = choose_kind("auto", str(nri), environment, listen, default)
    assert chosen == kind
    assert why in reason


def test_a_kind_that_is_named_is_taken(tmp_path: Path) -> None:
    assert choose_kind("embedded", "/absent", {}, None) == ("embedded", "")


def test_a_proxy_reads_the_pins_of_its_runtimes_containers(tmp_path: Path) -> None:
    access = find_runtime(
        *("cri", "/absent", "pinfold", "90", NOTHING, "unix:///run/some.sock", str(tmp_path)),
        cri_listen=str(tmp_path / "made" / "cri.sock"),
    )
    assert access.kind == "cri"
    assert isinstance(access.link, CriLink)
    assert (access.where, access.link.socket) == ("/run/some.sock", "/run/some.sock")
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("kind", "cri_socket", "listen", "said"),
    [
        pytest.param("cri", "/run/r.sock", None, "name one with --cri-listen", id="no socket"),
        pytest.param("cri", "off", "cri.sock", "names no socket of a runtime", id="no runtime"),
        pytest.param("nri", "auto", "cri.sock", "choose --runtime cri or auto", id="NRI is named"),
        pytest.param("embedded", "auto", "cri.sock", "on paper — choose --runtime", id="on paper"),
        pytest.param("cri", "SAME", "SAME", "is the runtime's own socket", id="equal paths"),
    ],
)
def test_options_that_cannot_work_together_are_refused(
    tmp_path: Path, kind: str, cri_socket: str, listen: str | None, said: str
) -> None:
    path = str(tmp_path / "cri.sock")
    with pytest.raises(PinfoldError, match=said):
        find_runtime(
            *(kind, "/absent", "pinfold", "90", NOTHING, cri_socket.replace("SAME", path)),
            cri_listen=None if listen is None else path,
        )

"""A daemon that is asked over its control socket, by clients of ours and by hostile ones."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

import grpc
import pytest

from pinfold.cmd.control.api import control_pb2 as api
from pinfold.cmd.control.control_client import ControlClient, ControlError, usual_path
from pinfold.cmd.control.control_gate import CLIENTS_MAX, GREETING
from pinfold.cmd.control.control_service import REQUEST_BYTES_MAX
from pinfold.cmd.control.documents import PinDocument
from pinfold.cmd.control.grpc_client.grpc_call import OK, GrpcCall
from pinfold.cmd.control.grpc_client.grpc_messages import request_bytes
from pinfold.policy.inquiry.audit import EVERYTHING

from ..daemon.paper_node import burstable, config, guaranteed
from .asked_node import AskedNode

SECONDS = 10
DATA, PING = 0, 6
"""Types of frames. Source: RFC 9113, 6."""


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    node = AskedNode(tmp_path)
    node.start()
    yield node
    node.stop()


def call(path: Path, method: str, request: bytes, seconds: float = SECONDS) -> grpc.StatusCode:
    """The code that a raw request is answered with."""
    with grpc.insecure_channel(f"unix:{path}", [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(method, None, None)(request, timeout=seconds)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_status_tells_pools_and_containers_as_intended_and_as_the_kernel_has_them(
    node: AskedNode,
) -> None:
    node.run(guaranteed("db", 2000), burstable("web", 500))
    status = node.client.status()
    assert (status.runtime.kind, status.runtime.name) == ("embedded", "containerd")
    assert status.runtime.connected
    assert status.problems == ()
    db, web = status.containers
    assert (db.container, db.kind, db.pool) == ("default/db/db", "exclusive", "socket #1")
    assert db.intended == db.kernel == PinDocument(cpus=node.cpus("db"), mems="1")
    assert (web.container, web.kind, web.drift) == ("default/web/web", "shared", False)
    pools = {pool.name: pool for pool in status.pools}
    assert pools["socket #1"].exclusive == node.cpus("db")
    assert pools["socket #1"].containers == ("default/db/db",)
    assert pools["root"].cpus == "0-7"
    assert sum(pool.shared_milli for pool in status.pools) == 500


def test_status_is_told_while_the_runtime_is_down(node: AskedNode) -> None:
    node.run(guaranteed("db", 2000))
    cpus = node.cpus("db")
    node.is_down = True
    node.runtime.drop()
    deadline = time.monotonic() + SECONDS
    while (status := node.client.status()).runtime.connected:
        assert time.monotonic() < deadline
    assert status.problems == ("runtime: not connected, or it did not tell what runs",)
    (db,) = status.containers
    assert db.kernel == PinDocument(cpus=cpus, mems="1")
    assert node.client.audit(repair=False).containers == 1


def test_a_changed_cpuset_is_drift_until_it_is_repaired(node: AskedNode) -> None:
    node.run(guaranteed("db", 2000), burstable("web", 500))
    assert node.client.audit(repair=False).drift == ()
    intended = node.cpus("db")
    node.runtime.kernel[node.id_of("db")].cpus = "0-7"
    audit = node.client.audit(repair=False)
    assert audit.containers == 2
    (drift,) = audit.drift
    assert (drift.container, drift.likely, drift.repaired) == ("default/db/db", EVERYTHING, False)
    assert drift.intended == PinDocument(cpus=intended, mems="1")
    assert drift.kernel == PinDocument(cpus="0-7", mems="1")
    assert [one.drift for one in node.client.status().containers] == [True, False]
    assert node.runtime.kernel[node.id_of("db")].cpus == "0-7", "asking changes nothing"
    (repaired,) = node.client.audit(repair=True).drift
    assert repaired.repaired
    assert node.cpus("db") == intended
    assert node.client.audit(repair=False).drift == ()
    assert node.daemon.tally.drifts == 1


def test_a_container_that_cannot_be_told_is_drift_with_the_runtimes_words(
    node: AskedNode,
) -> None:
    node.run(guaranteed("db", 2000))
    node.runtime.broken_ids.add(node.id_of("db"))
    node.runtime.kernel[node.id_of("db")].cpus = "0"
    (drift,) = node.client.audit(repair=True).drift
    assert not drift.repaired
    (drift,) = node.client.audit(repair=False).drift
    assert drift.likely == "UNKNOWN: failed to update resources"


def test_grpc_and_the_service_wait_for_somebody_who_asks(tmp_path: Path) -> None:
    node = AskedNode(tmp_path)
    node.start()
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(node.path))
            client.sendall(GREETING[:-1])
            assert [one.name for one in tmp_path.iterdir() if one.is_dir()] == []
        node.client.status()
        (inner,) = [one for one in tmp_path.iterdir() if one.is_dir()]
        assert inner.stat().st_mode & 0o777 == 0o700
    finally:
        node.stop()
    assert [one.name for one in tmp_path.iterdir()] == ["control.sock.lock"]


def test_a_socket_that_was_deleted_under_the_daemon_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    node = AskedNode(folder)
    node.start()
    try:
        for number in range(2):
            assert node.client.status().runtime.connected
            shutil.rmtree(folder)
            with pytest.raises(ControlError):
                node.client.status()
            for _ in range(2):
                node.server.follow()
                assert node.client.status().runtime.connected, "by another inner socket, too"
            told = [one for one in caplog.messages if "was gone, and is made anew" in one]
            assert len(told) == number + 1
    finally:
        node.stop()
    assert [one.name for one in folder.iterdir()] == ["control.sock.lock"]


@pytest.mark.parametrize(
    ("method", "request_", "code"),
    [
        pytest.param(
            "/pinfold.control.v1.Control/Explain",
            api.ExplainRequest(container="x" * (REQUEST_BYTES_MAX + 1)).SerializeToString(),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            id="a request that is too long",
        ),
        pytest.param(
            "/pinfold.control.v1.Control/Explain",
            b"\xff\xff\xff",
            grpc.StatusCode.INTERNAL,
            id="a request that is no message",
        ),
        pytest.param(
            "/pinfold.control.v1.Control/Destroy",
            b"",
            grpc.StatusCode.UNIMPLEMENTED,
            id="a method that is not there",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_and_the_next_one_served(
    node: AskedNode, method: str, request_: bytes, code: grpc.StatusCode
) -> None:
    assert call(node.path, method, request_) is code
    assert node.client.status().runtime.connected


def test_clients_are_served_while_others_hold_their_connections(node: AskedNode) -> None:
    held = [socket.socket(socket.AF_UNIX) for _ in range(3 * CLIENTS_MAX)]
    for number, one in enumerate(held):
        one.connect(str(node.path))
        # Half of a greeting, all of it, and one that asks and never reads.
        one.sendall((GREETING[:9], GREETING, GREETING + b"\0\0\0\4\0\0\0\0\0")[number % 3])
    for _ in range(3):
        assert node.client.status().runtime.connected
    for one in held:
        one.close()


def test_containers_start_while_many_ask(node: AskedNode) -> None:
    is_over = threading.Event()
    failures: list[Exception] = []

    def ask() -> None:
        while not is_over.is_set():
            try:
                node.client.status()
            except ControlError as error:
                failures.append(error)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for one in askers:
        one.start()
    node.run(*(burstable(f"web-{number}", 10) for number in range(20)))
    is_over.set()
    for one in askers:
        one.join(SECONDS)
    assert failures == []
    assert len(node.client.status().containers) == 20


STRANGER = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(10)
    try:
        client.connect(sys.argv[1])
        client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")
        print("answered" if client.recv(1) else "left")
    except PermissionError:
        print("not permitted")
    except ConnectionError:
        print("left")
"""


def stranger(path: Path, group: int = 65534) -> str:
    """The fate of a client of another user."""
    run = subprocess.run(
        [sys.executable, "-c", STRANGER, str(path), str(group)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return run.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_answer_comes_without_a_ping(node: AskedNode) -> None:
    node.run(burstable("web", 500))
    call = GrpcCall("/pinfold.control.v1.Control/Explain", request_bytes({1: "web"}), None, 1 << 20)
    received, kinds = b"", list[int]()
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS)
        client.connect(os.fspath(node.path))
        while call.status is None:
            client.sendall(call.to_send())
            data = client.recv(1 << 16)
            received += data
            list(call.receive(data))
    while received:
        size, kind = int.from_bytes(received[:3]), received[3]
        kinds.append(kind)
        received = received[9 + size :]
    assert call.status == OK
    assert DATA in kinds
    assert PING not in kinds


def test_other_users_are_kept_out_by_the_file_and_by_the_gate_but_for_a_group() -> None:
    group = 54321
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        node = AskedNode(folder, control={"group": str(group)})
        node.start()
        try:
            assert stranger(node.path) == "not permitted"
            assert stranger(node.path, group) == "answered"
            node.path.chmod(0o666)
            assert stranger(node.path) == "left"
            assert stranger(node.path, group) == "answered"
            node.daemon.reconfigure(config())
            node.server.follow()
            assert stranger(node.path, group) == "not permitted"
        finally:
            node.stop()


def test_client_says_why_it_cannot_ask(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with pytest.raises(ControlError, match="no such file or directory — start pinfoldd, or name"):
        ControlClient(path).status()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(ControlError, match="connection refused — nobody listens there any more"):
        ControlClient(path).status()


def test_client_looks_in_the_usual_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert usual_path((first, second)) == first
    second.touch()
    assert usual_path((first, second)) == second


def test_a_group_that_is_not_there_is_told_of_once_and_looked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = AskedNode(tmp_path, control={"group": "nobody-has-this"})
    node.start()
    try:
        for _ in range(3):
            node.server.follow()
        told = [one.getMessage() for one in caplog.records if "control.group" in one.getMessage()]
        assert told == ["control.group: no group 'nobody-has-this' — see 'getent group'"]
        assert node.path.stat().st_mode & 0o777 == 0o600
        assert node.client.status().runtime.connected
    finally:
        node.stop()
    node.server.follow()

"""The client against a server of gRPC's own: long answers, late ones, errors and other versions."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from pinfold.cmd.control.api import control_pb2 as api
from pinfold.cmd.control.control_client import ControlClient, ControlError, usual_path

from ..daemon.paper_node import guaranteed
from .asked_node import AskedNode

SERVICE = "pinfold.control.v1.Control"
OVER = b'{"at": "", "event": ""}'

Answer = Callable[[bytes, grpc.ServicerContext], bytes]
Stream = Callable[[bytes, grpc.ServicerContext], Iterator[bytes]]


class Stub:
    """A server at a socket, which answers as it is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.capture: Answer = lambda _, __: b""
        self.follow: Stream = lambda _, __: iter(())
        self._server = grpc.server(ThreadPoolExecutor(4))
        handlers = {
            "Capture": grpc.unary_unary_rpc_method_handler(self._capture),
            "Follow": grpc.unary_stream_rpc_method_handler(self._follow),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait(10)

    def stop_with_grace(self) -> threading.Event:
        """Take no more calls; answer those that were made."""
        return self._server.stop(10)

    def _capture(self, asked: bytes, context: grpc.ServicerContext) -> bytes:
        return self.capture(asked, context)

    def _follow(self, asked: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        return self.follow(asked, context)


@pytest.fixture(name="stub")
def fixture_stub(tmp_path: Path) -> Generator[Stub]:
    stub = Stub(tmp_path / "control.sock")
    yield stub
    stub.stop()


def answer(content: bytes) -> bytes:
    return api.Archive(content=content).SerializeToString()


def test_long_requests_and_answers_come_whole(stub: Stub) -> None:
    content = bytes(range(256)) * (3 << 12)

    def capture(asked: bytes, _: grpc.ServicerContext) -> bytes:
        name = api.CaptureRequest.FromString(asked).name
        return answer(content + name.encode())

    stub.capture = capture
    name = "ö" * 20_000
    assert ControlClient(stub.path).capture(name) == content + name.encode()


def test_an_error_is_told_in_its_own_words_without_what_a_terminal_would_do(stub: Stub) -> None:
    def capture(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "node: 'ü\x1b[2J' — 100% not here")

    stub.capture = capture
    with pytest.raises(ControlError) as error:
        ControlClient(stub.path).capture("x")
    assert str(error.value) == r"node: 'ü\u001b[2J' — 100% not here"


def test_an_answer_that_is_late_is_waited_for_so_long(stub: Stub) -> None:
    is_over = threading.Event()

    def capture(_: bytes, __: grpc.ServicerContext) -> bytes:
        is_over.wait(10)
        return b""

    stub.capture = capture
    begin = time.monotonic()
    with pytest.raises(ControlError, match=r"no answer in 0.2 s — is pinfoldd well"):
        ControlClient(stub.path, seconds=0.2).capture("x")
    assert time.monotonic() - begin < 5
    is_over.set()


def test_a_daemon_that_stops_still_answers_what_it_was_asked(stub: Stub) -> None:
    is_asked, goes_on = threading.Event(), threading.Event()

    def capture(_: bytes, __: grpc.ServicerContext) -> bytes:
        is_asked.set()
        goes_on.wait(10)
        return answer(b"x")

    stub.capture = capture
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ControlClient(stub.path).capture, "x")
        assert is_asked.wait(10)
        stopped = stub.stop_with_grace()
        # Its farewell is told before the answer.
        time.sleep(0.2)
        goes_on.set()
        assert asked.result() == b"x"
    assert stopped.wait(10)


def test_a_server_that_says_nothing_is_waited_for_so_long(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(ControlError, match=r"no answer in 0.2 s — is pinfoldd well"):
            ControlClient(path, seconds=0.2).status()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", r"the daemon closed the connection .* — does it still run, and may this user ask"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an answer of another version"),
    ],
    ids=["nothing", "another protocol"],
)
def test_a_server_that_is_none_of_ours_is_told_of(tmp_path: Path, said: bytes, reason: str) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def leave() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(said)

        thread = threading.Thread(target=leave)
        thread.start()
        with pytest.raises(ControlError, match=reason):
            ControlClient(path, seconds=5).status()
        thread.join()


@pytest.mark.parametrize("content", [b"\x0a\xff", b"\x0b"], ids=["cut off", "of another kind"])
def test_an_answer_of_another_version_is_told_of(stub: Stub, content: bytes) -> None:
    stub.capture = lambda _, __: content
    with pytest.raises(ControlError, match=r"an answer of another version .* daemon's own version"):
        ControlClient(stub.path).capture("x")


def test_a_server_without_what_is_asked_is_told_of_with_what_to_do(stub: Stub) -> None:
    """A runtime's own socket speaks gRPC, too."""
    with pytest.raises(ControlError, match=r": another program answers there, .* --control, "):
        ControlClient(stub.path).status()


@pytest.mark.parametrize("is_folder", [True, False], ids=["a folder", "a file"])
def test_what_is_no_socket_is_told_of(tmp_path: Path, *, is_folder: bool) -> None:
    path = tmp_path / "control.sock"
    path.mkdir() if is_folder else path.touch()
    with pytest.raises(ControlError) as caught:
        ControlClient(path).status()
    assert str(caught.value) == f"{path}: no socket — name that of pinfoldd with --control"


def test_a_socket_that_nobody_may_look_at_is_told_of(tmp_path: Path) -> None:
    # Root may look everywhere, but at no name that is too long.
    path = tmp_path / ("a" * 300)
    with pytest.raises(ControlError) as caught:
        ControlClient(path).status()
    assert str(caught.value).startswith(f"{path}: af_unix path too long — ")


def test_a_usual_place_that_nobody_may_look_at_is_left_out(tmp_path: Path) -> None:
    there = tmp_path / "control.sock"
    there.touch()
    assert usual_path([tmp_path / ("a" * 300), there]) == there


def test_a_question_that_is_too_long_is_not_asked(stub: Stub) -> None:
    with pytest.raises(ControlError, match=r"capture: more than 65530 bytes — ask for less"):
        ControlClient(stub.path).capture("x" * (1 << 16))


def test_a_stream_tells_each_message_as_it_comes_and_why_it_ended(stub: Stub) -> None:
    goes_on = threading.Event()

    def follow(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield api.Document(json=OVER).SerializeToString()
        assert goes_on.wait(10)
        yield api.Document(json=OVER).SerializeToString()
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more — come later")

    stub.follow = follow
    told = ControlClient(stub.path).follow()
    assert next(told).event == ""
    goes_on.set()
    assert next(told).event == ""
    with pytest.raises(ControlError, match="no more — come later"):
        next(told)


def test_a_stream_that_is_read_no_more_ends_for_the_server(stub: Stub) -> None:
    is_over = threading.Event()

    def follow(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(is_over.set)
        yield api.Document(json=OVER).SerializeToString()
        is_over.wait(10)

    stub.follow = follow
    told = ControlClient(stub.path).follow()
    next(told)
    assert isinstance(told, Generator)
    told.close()
    assert is_over.wait(10)


def test_asking_does_not_load_grpc(tmp_path: Path) -> None:
    node = AskedNode(tmp_path)
    node.start()
    try:
        node.run(guaranteed("db", 2000))
        program = (
            "import sys\n"
            "from pinfold.cmd.pinfold import main\n"
            f"main(['explain', 'db', '--control', {str(node.path)!r}], standalone_mode=False)\n"
            "print([one for one in ('grpc', 'google.protobuf', 'asyncio') if one in sys.modules])\n"
        )
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
    finally:
        node.stop()
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("default/db/db is in ")
    assert run.stdout.splitlines()[-1] == "[]"

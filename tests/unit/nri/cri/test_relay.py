import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pinfold.nri.cri.relay import CallFailure, Hook, Passage, RefusedCallError
from pinfold.nri.cri.upstream import MESSAGE_BYTES_MAX
from tests.unit.nri.cri.raw_runtime import DETAILS, RawClient, RawRuntime, relaying, serving


@pytest.fixture(name="runtime")
def fixture_runtime(tmp_path: Path) -> Generator[RawRuntime]:
    runtime = RawRuntime()
    with serving(tmp_path / "r.sock", runtime), relaying(tmp_path / "r.sock", tmp_path / "p.sock"):
        yield runtime


@pytest.fixture(name="client")
def fixture_client(tmp_path: Path) -> Generator[RawClient]:
    client = RawClient(tmp_path / "p.sock")
    yield client
    client.channel.close()


def metadata(found: Any) -> dict[str, str | bytes]:
    return {one.key: one.value for one in found}


@pytest.mark.parametrize(
    "name", ["Echo", "/runtime.v1.ImageService/Echo", "/somebody.elses.v9.Service/Echo"]
)
def test_a_call_of_any_service_passes_with_its_bytes_and_metadata(
    runtime: RawRuntime, client: RawClient, name: str
) -> None:
    sent = (("asked", "by"), ("asked-bin", b"\x00\xfe"))
    reply, call = client.unary(name, b"\xff no message \x00", metadata=sent)
    assert reply == b"\xff no message \x00"
    assert runtime.metadata["asked"] == "by"
    assert runtime.metadata["asked-bin"] == b"\x00\xfe"
    assert metadata(call.initial_metadata()) == {"begin": "one", "begin-bin": b"\x00\xff"}
    assert metadata(call.trailing_metadata()) == {"end": "two", "end-bin": b"\xff\x00"}


def test_the_callers_deadline_is_the_runtimes(runtime: RawRuntime, client: RawClient) -> None:
    client.unary("Echo", b"", timeout=30)
    assert runtime.seconds_left is not None
    # On its way it is rounded up, to some hundredths of itself.
    assert 20 < runtime.seconds_left < 31


def test_an_error_arrives_with_its_text_and_details(runtime: RawRuntime, client: RawClient) -> None:
    with pytest.raises(grpc.RpcError) as found:
        client.unary("Fail", b"")
    error: Any = found.value
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert error.details() == 'no container "x" — really'
    assert metadata(error.trailing_metadata()) == {
        "grpc-status-details-bin": DETAILS,
        "why": "so",
    }


@pytest.mark.parametrize("length", [9000, 20_000, 1_000_000])
def test_an_error_with_a_long_text_arrives_whole(
    runtime: RawRuntime, client: RawClient, length: int
) -> None:
    with pytest.raises(grpc.RpcError) as found:
        client.unary("Long", str(length).encode())
    error: Any = found.value
    assert error.code() is grpc.StatusCode.UNKNOWN
    assert error.details() == "x" * length


def test_an_unknown_method_is_unimplemented_every_time(
    runtime: RawRuntime, client: RawClient
) -> None:
    for _ in range(100):
        with pytest.raises(grpc.RpcError) as found:
            client.unary("NotThere", b"")
        error: Any = found.value
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_service_of_the_old_version_is_refused_without_the_runtime(
    runtime: RawRuntime, client: RawClient
) -> None:
    with pytest.raises(grpc.RpcError) as found:
        client.unary("/runtime.v1alpha2.RuntimeService/Echo", b"")
    error: Any = found.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "v1alpha2" in error.details()
    assert runtime.methods == []


@pytest.mark.parametrize("count", [0, 1, 500])
def test_a_stream_passes_whole_and_in_order(
    runtime: RawRuntime, client: RawClient, count: int
) -> None:
    replies = list(client.stream("Count", str(count).encode()))
    assert replies == [str(number).encode() for number in range(count)]


def test_what_a_stream_says_comes_at_once_and_its_cancellation_goes_through(
    runtime: RawRuntime, client: RawClient
) -> None:
    call = client.stream("Wait", b"first")
    assert next(call) == b"first"
    assert not runtime.is_cancelled.is_set()
    call.cancel()
    assert runtime.is_cancelled.wait(5)


def test_a_message_of_16_mib_passes_and_a_larger_one_is_refused(
    runtime: RawRuntime, client: RawClient
) -> None:
    reply, _ = client.unary("Big", str(MESSAGE_BYTES_MAX).encode())
    assert len(reply) == MESSAGE_BYTES_MAX
    reply, _ = client.unary("Echo", bytes(MESSAGE_BYTES_MAX))
    assert len(reply) == MESSAGE_BYTES_MAX
    for name, request in (
        ("Big", str(MESSAGE_BYTES_MAX + 1).encode()),
        ("Echo", bytes(MESSAGE_BYTES_MAX + 1)),
    ):
        with pytest.raises(grpc.RpcError) as found:
            client.unary(name, request)
        error: Any = found.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_without_a_runtime_a_call_fails_after_two_seconds_and_works_once_it_is_there(
    tmp_path: Path, client: RawClient
) -> None:
    with relaying(tmp_path / "r.sock", tmp_path / "p.sock"):
        begun = time.monotonic()
        with pytest.raises(grpc.RpcError) as found:
            client.unary("Echo", b"")
        error: Any = found.value
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert 1.5 < time.monotonic() - begun < 4
        with serving(tmp_path / "r.sock", RawRuntime()):
            reply, _ = client.unary("Echo", b"here")
            assert reply == b"here"


class Watched:
    """A hook that changes the request, and what it was told of the outcome."""

    def __init__(self) -> None:
        self.outcomes: list[bytes | CallFailure] = []
        self.is_told = threading.Event()

    async def hook(self, request: bytes) -> Passage:
        if request == b"refuse":
            raise RefusedCallError(grpc.StatusCode.RESOURCE_EXHAUSTED, "the whole reason")
        return Passage(request=request + b"!", done=self._told, failed=self._told)

    def _told(self, outcome: bytes | CallFailure) -> None:
        self.outcomes.append(outcome)
        self.is_told.set()


@pytest.fixture(name="watched")
def fixture_watched(tmp_path: Path) -> Generator[Watched]:
    watched = Watched()
    names = ("Echo", "Fail", "Begin", "Lost", "Wait", "NotThere")
    hooks: dict[str, Hook] = dict.fromkeys(names, watched.hook)
    with (
        serving(tmp_path / "r.sock", RawRuntime()),
        relaying(tmp_path / "r.sock", tmp_path / "p.sock", hooks),
    ):
        yield watched


def test_a_hooked_call_is_told_its_reply_and_keeps_its_metadata(
    watched: Watched, client: RawClient
) -> None:
    reply, call = client.unary("Echo", b"ask")
    assert reply == b"ask!"
    assert watched.outcomes == [b"ask!"]
    assert metadata(call.initial_metadata())["begin"] == "one"
    assert metadata(call.trailing_metadata())["end-bin"] == b"\xff\x00"


@pytest.mark.parametrize("name", ["Fail", "NotThere"])
def test_a_hooked_call_that_fails_is_told_so_for_certain_and_once(
    watched: Watched, client: RawClient, name: str
) -> None:
    with pytest.raises(grpc.RpcError):
        client.unary(name, b"")
    assert watched.outcomes == [CallFailure.NOT_DONE]


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Stream removed", CallFailure.UNKNOWN),
        ("Stream removed (Socket closed)", CallFailure.UNKNOWN),
        ("no such image", CallFailure.NOT_DONE),
    ],
)
def test_a_hooked_call_that_fails_with_its_connection_has_an_unknown_end(
    watched: Watched, client: RawClient, text: str, failure: CallFailure
) -> None:
    with pytest.raises(grpc.RpcError):
        client.unary("Lost", text.encode())
    assert watched.outcomes == [failure]


def test_a_hooked_call_that_fails_has_the_metadata_that_went_ahead_of_the_failure(
    tmp_path: Path, client: RawClient
) -> None:
    with (
        serving(tmp_path / "r.sock", RawRuntime()),
        relaying(tmp_path / "r.sock", tmp_path / "p.sock", {"Begin": Watched().hook}),
    ):
        assert _ahead_of_the_failure(client) == [("begin", "one"), ("begin", "two")]


def test_other_calls_that_fail_have_it_where_it_does_not_come_with_the_failure(
    tmp_path: Path, client: RawClient
) -> None:
    """Of a call that may have many answers grpc.aio loses it where its status is there as well."""
    with (
        serving(tmp_path / "r.sock", RawRuntime()),
        relaying(tmp_path / "r.sock", tmp_path / "p.sock", {}),
    ):
        found = [_ahead_of_the_failure(client) for _ in range(20)]
    assert [("begin", "one"), ("begin", "two")] in found
    assert all(one in ([], [("begin", "one"), ("begin", "two")]) for one in found)


def _ahead_of_the_failure(client: RawClient) -> list[tuple[str, str]]:
    """The initial metadata of a call that fails, whose status and trailing metadata are whole."""
    with pytest.raises(grpc.RpcError) as found:
        client.unary("Begin", b"")
    error: Any = found.value
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert metadata(error.trailing_metadata())["grpc-status-details-bin"] == DETAILS
    return list(error.initial_metadata())


def test_a_hooked_call_that_is_cancelled_or_late_has_an_unknown_end(
    watched: Watched, client: RawClient
) -> None:
    with pytest.raises(grpc.RpcError):
        client.unary("Wait", b"", timeout=2.0)
    assert watched.is_told.wait(5)
    assert watched.outcomes == [CallFailure.UNKNOWN]


def test_a_refused_call_never_reaches_the_runtime(watched: Watched, client: RawClient) -> None:
    with pytest.raises(grpc.RpcError) as found:
        client.unary("Echo", b"refuse")
    error: Any = found.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details() == "the whole reason"
    assert watched.outcomes == []


@pytest.mark.parametrize("is_late", [False, True])
def test_a_fault_in_a_hook_fails_no_call(tmp_path: Path, client: RawClient, is_late: bool) -> None:
    outcomes: list[CallFailure] = []

    def fail(_reply: bytes) -> None:
        raise ValueError("a fault")

    async def hook(request: bytes) -> Passage:
        if not is_late:
            fail(request)
        return Passage(request=request, done=fail, failed=outcomes.append)

    with (
        serving(tmp_path / "r.sock", RawRuntime()),
        relaying(tmp_path / "r.sock", tmp_path / "p.sock", {"Echo": hook}) as faults,
    ):
        reply, _ = client.unary("Echo", b"here")
    assert reply == b"here"
    assert faults == ["a fault"]
    assert outcomes == ([CallFailure.UNKNOWN] if is_late else []), (
        "a list is to tell what came of it"
    )


def test_the_end_of_a_hooked_call_goes_through(tmp_path: Path, client: RawClient) -> None:
    runtime, watched = RawRuntime(), Watched()
    with (
        serving(tmp_path / "r.sock", runtime),
        relaying(tmp_path / "r.sock", tmp_path / "p.sock", {"Wait": watched.hook}),
    ):
        call = client.stream("Wait", b"")
        assert runtime.has_begun.wait(5)
        call.cancel()
        assert runtime.is_cancelled.wait(5)
        assert watched.is_told.wait(5)
    assert watched.outcomes == [CallFailure.UNKNOWN]

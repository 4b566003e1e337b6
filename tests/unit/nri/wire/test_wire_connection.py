import pytest

from pinfold.nri.api import ttrpc_pb2
from pinfold.nri.wire.connection import BadCall, Call, Connection, Rejection, Reply, Role
from pinfold.nri.wire.mux import Frame, WireError, encode_message
from pinfold.nri.wire.ttrpc import SEND_MAX_BYTES, Code, Message, MessageType

PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME = "nri.pkg.api.v1alpha1.Runtime"


def raw_request(stream_id: int, data: bytes, kind: int = MessageType.REQUEST) -> bytes:
    return encode_message(1, Message(stream_id=stream_id, type=kind, data=data).encode())


@pytest.mark.parametrize(
    ("caller_role", "callee_role", "service"),
    [
        pytest.param(Role.RUNTIME, Role.PLUGIN, PLUGIN, id="the runtime calls the plugin"),
        pytest.param(Role.PLUGIN, Role.RUNTIME, RUNTIME, id="the plugin calls the runtime"),
    ],
)
def test_call_and_answer_cross_the_wire(caller_role: Role, callee_role: Role, service: str) -> None:
    caller, callee = Connection(caller_role), Connection(callee_role)
    stream_id, sent = caller.request(service, "Ping", b"payload", timeout_nano=7)
    [call] = callee.receive(sent)
    assert call == Call(
        stream_id=stream_id, service=service, method="Ping", payload=b"payload", timeout_nano=7
    )
    assert caller.receive(callee.respond(stream_id, b"pong")) == [
        Reply(stream_id=stream_id, payload=b"pong")
    ]


def test_both_directions_use_the_same_stream_numbers_without_mixing_them_up() -> None:
    plugin, runtime = Connection(Role.PLUGIN), Connection(Role.RUNTIME)
    ours, to_runtime = plugin.request(RUNTIME, "RegisterPlugin", b"")
    theirs, to_plugin = runtime.request(PLUGIN, "Configure", b"")
    assert ours == theirs == 1
    assert isinstance(plugin.receive(to_plugin)[0], Call)
    assert isinstance(runtime.receive(to_runtime)[0], Call)
    assert plugin.receive(runtime.respond(1, b"r")) == [Reply(stream_id=1, payload=b"r")]
    assert runtime.receive(plugin.respond(1, b"p")) == [Reply(stream_id=1, payload=b"p")]


def test_stream_ids_are_odd_and_increase() -> None:
    plugin = Connection(Role.PLUGIN)
    assert [plugin.request(RUNTIME, "m", b"")[0] for _ in range(3)] == [1, 3, 5]


def test_errors_carry_their_code_and_text() -> None:
    plugin, runtime = Connection(Role.PLUGIN), Connection(Role.RUNTIME)
    stream_id, sent = runtime.request(PLUGIN, "Unheard", b"")
    plugin.receive(sent)
    [reply] = runtime.receive(
        plugin.respond(stream_id, Rejection(Code.UNIMPLEMENTED, "no such method"))
    )
    assert reply == Reply(stream_id=1, code=12, message="no such method")


def test_answers_may_come_in_any_order_and_only_once() -> None:
    plugin, runtime = Connection(Role.PLUGIN), Connection(Role.RUNTIME)
    for _ in range(2):
        plugin.receive(runtime.request(PLUGIN, "m", b"")[1])
    second, first = plugin.respond(3, b"b"), plugin.respond(1, b"a")
    assert runtime.receive(second + first) == [
        Reply(stream_id=3, payload=b"b"),
        Reply(stream_id=1, payload=b"a"),
    ]
    assert runtime.receive(first) == []


@pytest.mark.parametrize(
    ("stream_ids", "text"),
    [
        pytest.param([2], "must be odd", id="an even stream id is refused"),
        pytest.param([5, 5], "must increase", id="a stream id used twice is refused"),
        pytest.param([5, 3], "must increase", id="a stream id that goes back is refused"),
    ],
)
def test_stream_ids_that_break_the_rules_are_answered(stream_ids: list[int], text: str) -> None:
    plugin = Connection(Role.PLUGIN)
    events = [event for one in stream_ids for event in plugin.receive(raw_request(one, b""))]
    assert isinstance(events[-1], BadCall)
    assert events[-1].code is Code.INVALID_ARGUMENT
    assert text in events[-1].message


def test_request_that_is_no_protobuf_is_answered_and_the_connection_lives() -> None:
    plugin = Connection(Role.PLUGIN)
    [event] = plugin.receive(raw_request(1, b"\xff\xff\xff"))
    assert isinstance(event, BadCall)
    assert event.code is Code.INVALID_ARGUMENT
    good = ttrpc_pb2.Request(service=PLUGIN, method="Shutdown").SerializeToString()
    assert isinstance(plugin.receive(raw_request(3, good))[0], Call)


def test_response_that_is_no_protobuf_fails_its_call_only() -> None:
    runtime = Connection(Role.RUNTIME)
    runtime.request(PLUGIN, "m", b"")
    data = Message(stream_id=1, type=MessageType.RESPONSE, data=b"\xff").encode()
    [reply] = runtime.receive(encode_message(1, data))
    assert isinstance(reply, Reply)
    assert reply.code == Code.INTERNAL


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(Frame(7, b"\xff" * 20).encode(), id="frames of an unknown connection"),
        pytest.param(Frame(0, b"\xff" * 20).encode(), id="frames of the reserved connection"),
        pytest.param(raw_request(1, b"x", MessageType.DATA), id="data messages"),
        pytest.param(raw_request(1, b"x", 9), id="messages of an unknown type"),
        pytest.param(raw_request(1, b"x", MessageType.RESPONSE), id="answers on the wrong side"),
    ],
)
def test_what_nobody_waits_for_is_dropped(data: bytes) -> None:
    assert Connection(Role.PLUGIN).receive(data) == []


def test_six_megabytes_in_one_message_are_taken_as_old_runtimes_send_them() -> None:
    plugin, runtime = Connection(Role.PLUGIN), Connection(Role.RUNTIME)
    payload = bytes(6 << 20)
    sent = runtime.request(PLUGIN, "Synchronize", payload)[1]
    [call] = plugin.receive(sent)
    assert isinstance(call, Call)
    assert call.payload == payload


def test_answer_over_the_protocols_limit_becomes_an_error() -> None:
    plugin, runtime = Connection(Role.PLUGIN), Connection(Role.RUNTIME)
    plugin.receive(runtime.request(PLUGIN, "m", b"")[1])
    [reply] = runtime.receive(plugin.respond(1, bytes(SEND_MAX_BYTES)))
    assert isinstance(reply, Reply)
    assert reply.code == Code.RESOURCE_EXHAUSTED


def test_promise_of_more_than_the_receive_limit_is_answered_at_once() -> None:
    header = (65 << 20).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\x01\x00"
    [event] = Connection(Role.PLUGIN).receive(encode_message(1, header))
    assert event == BadCall(1, Code.RESOURCE_EXHAUSTED, "request is too large")


def test_broken_framing_ends_the_connection() -> None:
    plugin = Connection(Role.PLUGIN)
    with pytest.raises(WireError):
        plugin.receive(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(WireError):
        plugin.receive(b"")

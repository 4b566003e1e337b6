"""A plain call says what a gRPC server takes, and reads what one answers, however it is cut."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.cmd.control.plain.header_block import HeaderError, header_block, header_fields
from pinfold.cmd.control.plain.plain_call import REQUEST_BYTES_MAX, AnswerError, PlainCall

BYTES_MAX = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, MORE = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32

TEXTS = st.text(st.characters(max_codepoint=255), max_size=300)


def frame(kind: int, flags: int = 0, stream: int = 1, payload: bytes = b"") -> bytes:
    head = struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream)
    return head + payload


def message(content: bytes) -> bytes:
    return struct.pack(">BI", 0, len(content)) + content


def trailers(status: int, details: str = "") -> bytes:
    fields = [("grpc-status", str(status)), *([("grpc-message", details)] if details else [])]
    return frame(HEADERS, END_STREAM | END_HEADERS, payload=header_block(fields))


def a_call(request: bytes = b"", seconds: float | None = None) -> PlainCall:
    return PlainCall("/service/Method", request, seconds, BYTES_MAX)


def heard(call: PlainCall, data: bytes, cuts: Sequence[int] = ()) -> list[bytes]:
    """The messages of an answer that comes in pieces."""
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    begins = [0, *ends[:-1]]
    return [
        one
        for begin, end in zip(begins, ends, strict=True)
        for one in call.receive(data[begin:end])
    ]


BEGIN = frame(SETTINGS, stream=0) + frame(HEADERS, END_HEADERS, payload=b"\x88")


@given(
    contents=st.lists(st.binary(max_size=500), max_size=4),
    frame_bytes=st.integers(1, 700),
    cuts=st.lists(st.integers(0, 3000), max_size=8),
)
def test_the_messages_of_an_answer_are_those_sent_whatever_its_frames_and_pieces_are(
    contents: list[bytes], frame_bytes: int, cuts: list[int]
) -> None:
    body = b"".join(map(message, contents))
    frames = (body[at : at + frame_bytes] for at in range(0, len(body), frame_bytes))
    answer = BEGIN + b"".join(frame(DATA, payload=one) for one in frames) + trailers(0)
    call = a_call()
    assert heard(call, answer, cuts) == contents
    assert call.status == 0


@given(fields=st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
def test_a_block_of_headers_is_read_as_it_was_written(fields: list[tuple[str, str]]) -> None:
    assert list(header_fields(header_block(fields))) == fields


@given(st.binary(max_size=64))
def test_of_any_bytes_there_are_headers_or_an_error(block: bytes) -> None:
    try:
        list(header_fields(block))
    except HeaderError:
        return


@given(data=st.binary(max_size=200), is_framed=st.booleans(), kind=st.integers(0, 10))
def test_of_any_bytes_there_is_an_answer_or_an_error(
    data: bytes, is_framed: bool, kind: int
) -> None:
    call = a_call()
    try:
        found = heard(call, frame(kind, data[0] if data else 0, 1, data) if is_framed else data)
    except (AnswerError, HeaderError):
        return
    assert sum(map(len, found)) <= len(data)


def frames_of(said: bytes) -> list[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of each frame."""
    found: list[tuple[int, int, int, bytes]] = []
    while said:
        high, low, kind, flags, stream = struct.unpack_from(">BHBBI", said)
        end = 9 + (high << 16 | low)
        found.append((kind, flags, stream, said[9:end]))
        said = said[end:]
    return found


@given(request=st.binary(max_size=REQUEST_BYTES_MAX))
def test_a_request_of_any_length_is_said_in_frames_that_every_server_takes(request: bytes) -> None:
    said = a_call(request, seconds=1.5).to_send()
    assert said.startswith(PREFACE)
    settings, window, headers, *data = frames_of(said.removeprefix(PREFACE))
    assert (settings[0], window[0], headers[:3]) == (SETTINGS, WINDOW, (HEADERS, END_HEADERS, 1))
    fields = dict(header_fields(headers[3]))
    assert (fields[":path"], fields["grpc-timeout"]) == ("/service/Method", "1500m")
    assert all(one[:1] + one[2:3] == (DATA, 1) and len(one[3]) <= 1 << 14 for one in data)
    assert [one[1] for one in data] == [0] * (len(data) - 1) + [END_STREAM]
    assert b"".join(one[3] for one in data) == message(request)


def test_a_request_that_is_too_long_is_an_error() -> None:
    with pytest.raises(AnswerError, match="more than 65530 bytes"):
        a_call(bytes(REQUEST_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        pytest.param(
            frame(SETTINGS, stream=0), frame(SETTINGS, ACK, 0), id="settings are taken note of"
        ),
        pytest.param(frame(SETTINGS, ACK, 0), b"", id="a note of ours is not noted"),
        pytest.param(
            frame(PING, 0, 0, b"12345678"),
            frame(PING, ACK, 0, b"12345678"),
            id="a ping is answered",
        ),
        pytest.param(frame(PING, ACK, 0, b"12345678"), b"", id="an answer to a ping is not"),
        pytest.param(frame(WINDOW, 0, 0, b"\0\0\1\0"), b"", id="room for more is not needed"),
        pytest.param(frame(250, 0, 7, b"new"), b"", id="frames of other kinds are passed over"),
        pytest.param(frame(DATA, 0, 3, b"x"), b"", id="what is of other calls is passed over"),
        pytest.param(
            frame(GOAWAY, 0, 0, struct.pack(">II", 1, 0)), b"", id="a server that ends after this"
        ),
    ],
)
def test_what_a_server_says_beside_its_answer_is_answered_and_the_call_goes_on(
    said: bytes, answer: bytes
) -> None:
    call = a_call()
    call.to_send()
    assert heard(call, said) == []
    assert call.to_send() == answer
    assert heard(call, BEGIN + frame(DATA, payload=message(b"x")) + trailers(0)) == [b"x"]


def test_room_is_made_for_long_answers() -> None:
    call = a_call()
    call.to_send()
    part = bytes(1 << 14)
    for _ in range(64):
        heard(call, frame(DATA, payload=part))
    room = struct.pack(">I", 1 << 20)
    assert call.to_send() == frame(WINDOW, 0, 0, room) + frame(WINDOW, 0, 1, room)
    assert call.to_send() == b""


@pytest.mark.parametrize(
    ("said", "status", "details"),
    [
        pytest.param(trailers(3, "no%20%E2%80%94%20here"), 3, "no — here", id="an error"),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS | PADDED, payload=b"\3" + header_block(
                [("grpc-status", "5")]) + bytes(3)),
            5, "", id="padded headers",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS | PRIORITY, payload=bytes(5) + header_block(
                [("grpc-status", "5")])),
            5, "", id="headers with a priority",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM, payload=header_block([("grpc-status", "5")])[:4])
            + frame(MORE, END_HEADERS, payload=header_block([("grpc-status", "5")])[4:]),
            5, "", id="headers in two frames",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS, payload=b"\x20\x40" + header_block(
                [("grpc-status", "5")])[1:]),
            5, "", id="headers that are to be remembered, and are not",
        ),
        pytest.param(
            frame(RESET, payload=b"\0\0\0\7"), 14, "the call was reset (7)", id="refused"
        ),
        pytest.param(
            frame(RESET, payload=b"\0\0\0\2"), 13, "the call was reset (2)", id="a server's fault"
        ),
        pytest.param(
            frame(GOAWAY, 0, 0, bytes(8) + b"too_many_pings"), 14, "too_many_pings", id="sent away"
        ),
    ],
)  # fmt: skip
def test_a_call_ends_with_a_status(said: bytes, status: int, details: str) -> None:
    call = a_call()
    assert heard(call, frame(SETTINGS, stream=0) + said) == []
    assert (call.status, call.details) == (status, details)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(frame(DATA, END_STREAM, payload=message(b"x")), id="no status after data"),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS, payload=b"\x88"), id="no status in headers"
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS, payload=b"\0\x8bgrpc-status\x010"),
            id="a status whose name is packed",
        ),
        pytest.param(frame(DATA, payload=b"\1\0\0\0\0"), id="a compressed message"),
        pytest.param(frame(DATA, payload=b"\0\xff\xff\xff\xff"), id="a message that is too long"),
        pytest.param(frame(DATA, PADDED, payload=b"\2\0"), id="more padding than frame"),
        pytest.param(frame(RESET, payload=b"\0"), id="a frame that is cut off"),
        pytest.param(b"\xff\xff\xff\0\0\0\0\0\0", id="a frame that is too long"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n", id="an older HTTP"),
    ],
)
def test_what_is_no_answer_is_an_error(said: bytes) -> None:
    with pytest.raises((AnswerError, HeaderError)):
        heard(a_call(), said)

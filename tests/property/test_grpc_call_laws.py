"""A plain call says what a gRPC server takes, and reads what one answers, however it is cut."""

import struct
from collections.abc import Iterable, Sequence

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from pinfold.cmd.control.grpc_client.grpc_call import REQUEST_BYTES_MAX, AnswerError, GrpcCall

BYTES_MAX = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, MORE = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32


def frame(kind: int, flags: int = 0, stream: int = 1, payload: bytes = b"") -> bytes:
    head = struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream)
    return head + payload


def message(content: bytes) -> bytes:
    return struct.pack(">BI", 0, len(content)) + content


def header_block(fields: Iterable[tuple[str, str]], *, is_packed: bool = False) -> bytes:
    """Header fields as a server says them that has said none before."""
    return Encoder().encode(fields, huffman=is_packed)


def trailers(status: int, details: str = "") -> bytes:
    fields = [("grpc-status", str(status)), *([("grpc-message", details)] if details else [])]
    return frame(HEADERS, END_STREAM | END_HEADERS, payload=header_block(fields))


def a_call(request: bytes = b"", seconds: float | None = None) -> GrpcCall:
    return GrpcCall("/service/Method", request, seconds, BYTES_MAX)


def heard(call: GrpcCall, data: bytes, cuts: Sequence[int] = ()) -> list[bytes]:
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


FRAMES = st.builds(
    frame,
    *(st.integers(0, 12), st.integers(0, 255), st.integers(0, 3)),
    st.one_of(st.binary(max_size=40), st.lists(st.integers(0, 9), max_size=40).map(bytes)),
)
HEADER_FRAMES = st.builds(
    frame,
    st.just(HEADERS),
    st.sampled_from((END_HEADERS, END_HEADERS | END_STREAM)),
    st.just(1),
    st.one_of(
        st.binary(max_size=40),
        st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=5).map(header_block),
    ),
)


@given(
    begin=st.sampled_from((b"", frame(SETTINGS, stream=0), BEGIN)),
    said=st.one_of(st.binary(max_size=200), st.lists(FRAMES | HEADER_FRAMES).map(b"".join)),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
def test_of_any_bytes_there_is_an_answer_or_an_error(
    begin: bytes, said: bytes, cuts: list[int]
) -> None:
    call = a_call()
    try:
        found = heard(call, begin + said, cuts)
    except AnswerError:
        return
    assert sum(map(len, found)) <= len(said)
    call.to_send()


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
    fields = dict(Decoder().decode(headers[3], raw=True))
    assert (fields[b":path"], fields[b"grpc-timeout"]) == (b"/service/Method", b"1500m")
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
        pytest.param(
            frame(GOAWAY, 0, 0, struct.pack(">II", 1, 0)), b"", id="a server that ends after this"
        ),
        pytest.param(
            frame(GOAWAY, 0, 0, struct.pack(">II", (1 << 31) - 1, 0))
            + frame(PING, 0, 0, b"12345678")
            + frame(GOAWAY, 0, 0, struct.pack(">II", 1, 0)),
            frame(PING, ACK, 0, b"12345678"),
            id="a server that tells twice that it ends, as gRPC's does",
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
    heard(call, BEGIN)
    assert call.to_send() == frame(SETTINGS, ACK, 0)
    part = bytes(1 << 14)
    for _ in range(64):
        heard(call, frame(DATA, payload=part))
    room = struct.pack(">I", 1 << 20)
    assert call.to_send() == frame(WINDOW, 0, 0, room) + frame(WINDOW, 0, 1, room)
    assert call.to_send() == b""


STATUS_5 = header_block([("grpc-status", "5")])


@pytest.mark.parametrize(
    ("said", "status", "details"),
    [
        pytest.param(trailers(3, "no%20%E2%80%94%20here"), 3, "no — here", id="an error"),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS | PADDED, payload=b"\3" + STATUS_5 + bytes(3)),
            5, "", id="padded headers",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS | PRIORITY, payload=bytes(5) + STATUS_5),
            5, "", id="headers with a priority",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM, payload=STATUS_5[:4])
            + frame(MORE, END_HEADERS, payload=STATUS_5[4:]),
            5, "", id="headers in two frames",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS, payload=header_block(
                [("grpc-status", "5"), ("grpc-message", "no")], is_packed=True)),
            5, "no", id="packed headers",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS, payload=b"\x20\0" + STATUS_5[1:]),
            5, "", id="headers that are not to be remembered",
        ),
        pytest.param(
            frame(RESET, payload=b"\0\0\0\7"), 14, "the call was reset (7)", id="refused"
        ),
        pytest.param(
            frame(RESET, payload=b"\0\0\0\2"), 13, "the call was reset (2)", id="a server's fault"
        ),
        pytest.param(
            frame(RESET, payload=b"\0\0\1\0"), 13, "the call was reset (256)",
            id="reset for a reason that HTTP/2 does not know",
        ),
        pytest.param(
            frame(GOAWAY, 0, 0, bytes(8) + b"too_many_pings"), 14, "too_many_pings", id="sent away"
        ),
        pytest.param(
            frame(GOAWAY, 0, 0, bytes(8)), 14, "no more calls are taken", id="sent away silently"
        ),
    ],
)  # fmt: skip
def test_a_call_ends_with_a_status(said: bytes, status: int, details: str) -> None:
    call = a_call()
    assert heard(call, BEGIN + said) == []
    assert (call.status, call.details) == (status, details)


def test_a_call_may_end_with_the_first_headers() -> None:
    call = a_call()
    block = header_block([(":status", "200"), ("grpc-status", "5"), ("grpc-message", "not here")])
    said = frame(HEADERS, END_STREAM | END_HEADERS, payload=block)
    assert heard(call, frame(SETTINGS, stream=0) + said) == []
    assert (call.status, call.details) == (5, "not here")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(
            BEGIN + frame(DATA, END_STREAM, payload=message(b"x")), "without a status",
            id="no status after data",
        ),
        pytest.param(
            frame(HEADERS, END_STREAM | END_HEADERS, payload=b"\x88"), "without a status",
            id="no status in headers",
        ),
        pytest.param(
            BEGIN + frame(HEADERS, END_STREAM | END_HEADERS, payload=header_block(
                [("grpc-status", "x")])),
            "without a status", id="a status that is no number",
        ),
        pytest.param(
            BEGIN + frame(DATA, payload=b"\1\0\0\0\0"), "compressed, or too long",
            id="a compressed message",
        ),
        pytest.param(
            BEGIN + frame(DATA, payload=b"\0\xff\xff\xff\xff"), "compressed, or too long",
            id="a message that is too long",
        ),
        pytest.param(frame(DATA, payload=message(b"x")), "no HTTP/2", id="data before headers"),
        pytest.param(
            BEGIN + frame(DATA, 0, 3, b"x"), "no HTTP/2", id="data of a call that was not made"
        ),
        pytest.param(
            BEGIN + frame(DATA, PADDED, payload=b"\2\0"), "no HTTP/2",
            id="more padding than frame",
        ),
        pytest.param(
            BEGIN + frame(RESET, payload=b"\0"), "no HTTP/2", id="a frame that is cut off"
        ),
        pytest.param(
            BEGIN + frame(GOAWAY, 0, 0, b"\0"), "no HTTP/2", id="a farewell that is cut off"
        ),
        pytest.param(
            frame(HEADERS, END_HEADERS, payload=b"\xff"), "no HTTP/2", id="no block of headers"
        ),
        pytest.param(
            frame(HEADERS, END_HEADERS, payload=b"\x88\x40\1a\x7f\x81\x7f" + b"x" * 0x3FFF
                  + b"\xbe" * 4), "too long", id="a frame of headers that is too long",
        ),
        pytest.param(
            frame(HEADERS, END_HEADERS, payload=b"\x88\x40\1a\x7f\x81\x1e" + b"x" * 0xF80
                  + b"\xbe" * 40), "DenialOfService", id="headers that unfold to too much",
        ),
        pytest.param(
            frame(HEADERS, payload=b"\x88") + 100 * frame(MORE, payload=b"\0\1a\1b"), "no HTTP/2",
            id="headers without an end",
        ),
        pytest.param(b"\0\x40\1\0\0\0\0\0\0", "too long", id="a frame that will be too long"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n", "too long", id="an older HTTP"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(said: bytes, reason: str) -> None:
    with pytest.raises(AnswerError, match=reason):
        heard(a_call(), said)

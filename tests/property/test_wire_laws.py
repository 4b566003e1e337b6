"""Laws of the wire: splits do not matter, and no bytes raise anything but `WireError`."""

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.nri.wire.connection import Connection, Event, Role
from pinfold.nri.wire.mux import PAYLOAD_MAX_BYTES, Frame, FrameDecoder, WireError, encode_message
from pinfold.nri.wire.ttrpc import Message, MessageDecoder

T = TypeVar("T")

laws = settings(max_examples=150, deadline=None)

frames = st.lists(st.builds(Frame, st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=8)
messages = st.lists(
    st.builds(
        Message,
        stream_id=st.integers(0, 2**32 - 1),
        type=st.integers(0, 255),
        flags=st.integers(0, 255),
        data=st.binary(max_size=60),
    ),
    max_size=6,
)
cuts = st.lists(st.integers(0, 400), max_size=12)
roles = st.sampled_from(Role)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(marks)]


def fed(feed: Callable[[bytes], Sequence[T]], chunks: list[bytes]) -> list[T]:
    return [one for chunk in chunks for one in feed(chunk)]


@laws
@given(frames, cuts)
def test_any_split_of_the_bytes_gives_the_same_frames(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frame.encode() for frame in sent)
    assert fed(FrameDecoder().feed, pieces(data, cuts)) == sent


@laws
@given(frames, st.integers(PAYLOAD_MAX_BYTES + 1, 2**32 - 1), st.binary(max_size=40), cuts)
def test_any_split_gives_the_frames_before_a_broken_one_and_then_an_error(
    sent: list[Frame], length: int, rest: bytes, cuts: list[int]
) -> None:
    broken = (1).to_bytes(4, "big") + length.to_bytes(4, "big") + rest
    data = b"".join(frame.encode() for frame in sent) + broken
    decoder = FrameDecoder()
    received: list[Frame] = []

    def receive() -> None:
        for chunk in pieces(data, cuts):
            received.extend(decoder.feed(chunk))
        assert decoder.fault
        decoder.feed(b"")

    with pytest.raises(WireError, match=f"frame of {length} bytes"):
        receive()
    assert received == sent


@laws
@given(messages, cuts)
def test_any_split_of_the_bytes_gives_the_same_messages(
    sent: list[Message], cuts: list[int]
) -> None:
    data = b"".join(message.encode() for message in sent)
    assert fed(MessageDecoder().feed, pieces(data, cuts)) == sent


@laws
@given(messages, cuts, st.integers(0, 50))
def test_any_split_gives_the_same_messages_where_some_are_over_the_limit(
    sent: list[Message], cuts: list[int], limit: int
) -> None:
    data = b"".join(message.encode() for message in sent)
    decoded = fed(MessageDecoder(limit).feed, pieces(data, cuts))
    assert [one.is_oversized for one in decoded] == [len(one.data) > limit for one in sent]
    assert [one.stream_id for one in decoded] == [one.stream_id for one in sent]
    assert [one for one in decoded if not one.is_oversized] == [
        one for one in sent if len(one.data) <= limit
    ]


@laws
@given(st.binary(max_size=10_000), st.integers(0, 2**32 - 1))
def test_message_survives_being_cut_into_frames(message: bytes, connection_id: int) -> None:
    decoded = FrameDecoder().feed(encode_message(connection_id, message))
    assert b"".join(frame.payload for frame in decoded) == message
    assert {frame.connection_id for frame in decoded} == {connection_id}


@laws
@given(roles, st.lists(st.binary(max_size=80), max_size=6))
def test_garbage_ends_in_events_or_in_a_wire_error(role: Role, chunks: list[bytes]) -> None:
    connection = Connection(role)
    connection.request("service", "method", b"")
    try:
        for chunk in chunks:
            connection.receive(chunk)
    except WireError:
        return


@laws
@given(roles, messages, cuts)
def test_arbitrary_messages_end_in_the_same_events_in_any_split(
    role: Role, sent: list[Message], cuts: list[int]
) -> None:
    data = b"".join(encode_message(one.stream_id % 4, one.encode()) for one in sent)

    def events(chunks: list[bytes]) -> list[Event]:
        connection = Connection(role)
        connection.request("service", "method", b"")
        return fed(connection.receive, chunks)

    assert events(pieces(data, cuts)) == events([data])


@laws
@given(st.text(max_size=20), st.text(max_size=20), st.binary(max_size=5000), cuts)
def test_calls_cross_the_wire_unharmed(
    service: str, method: str, payload: bytes, cuts: list[int]
) -> None:
    caller, callee = Connection(Role.RUNTIME), Connection(Role.PLUGIN)
    sent = caller.request(service, method, payload)[1]
    [call] = fed(callee.receive, pieces(sent, cuts))
    assert (call.service, call.method, call.payload) == (service, method, payload)  # type: ignore[union-attr]  # a well-formed request is a Call

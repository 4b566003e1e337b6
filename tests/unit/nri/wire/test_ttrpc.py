from pinfold.nri.wire.ttrpc import Message, MessageDecoder, MessageType


def test_message_is_written_as_length_stream_type_flags_and_data() -> None:
    message = Message(stream_id=3, type=MessageType.RESPONSE, data=b"ok")
    assert message.encode() == bytes.fromhex("00000002 00000003 02 00 6f6b")


def test_one_chunk_may_hold_several_messages_and_half_of_the_next() -> None:
    first = Message(stream_id=1, type=MessageType.REQUEST, data=b"one")
    second = Message(stream_id=3, type=MessageType.REQUEST, data=b"")
    third = Message(stream_id=5, type=MessageType.REQUEST, data=b"three")
    data = first.encode() + second.encode() + third.encode()
    decoder = MessageDecoder()
    assert decoder.feed(data[:-2]) == [first, second]
    assert decoder.feed(data[-2:]) == [third]


def test_message_over_the_limit_is_reported_on_its_header_and_skipped() -> None:
    decoder = MessageDecoder(limit_bytes=4)
    large = Message(stream_id=1, type=MessageType.REQUEST, data=b"12345").encode()
    small = Message(stream_id=3, type=MessageType.REQUEST, data=b"1234")
    [reported] = decoder.feed(large[:10])
    assert (reported.stream_id, reported.is_oversized, reported.data) == (1, True, b"")
    assert decoder.feed(large[10:12]) == []
    assert decoder.feed(large[12:] + small.encode()) == [small]


def test_message_far_over_the_limit_is_not_stored() -> None:
    decoder = MessageDecoder(limit_bytes=1 << 20)
    header = Message(stream_id=1, type=MessageType.REQUEST).encode()
    decoder.feed((0xFFFFFFFF).to_bytes(4, "big") + header[4:])
    for _ in range(64):
        assert decoder.feed(bytes(1 << 20)) == []
    assert len(decoder._buffer) == 0  # pyright: ignore[reportPrivateUsage]  # memory is the point

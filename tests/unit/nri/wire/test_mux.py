import pytest

from pinfold.nri.wire.mux import PAYLOAD_MAX_BYTES, Frame, FrameDecoder, WireError, encode_message


def frame_sizes(data: bytes) -> list[int]:
    return [len(frame.payload) for frame in FrameDecoder().feed(data)]


@pytest.mark.parametrize(
    ("length", "sizes"),
    [
        pytest.param(0, [0], id="an empty message is one empty frame"),
        pytest.param(4096, [4096], id="4096 bytes fit the first frame"),
        pytest.param(4097, [4096, 1], id="one byte more makes a second frame"),
        pytest.param(300_000, [4096, 295_904], id="the rest is one frame, not many"),
        pytest.param(
            4096 + PAYLOAD_MAX_BYTES + 1,
            [4096, PAYLOAD_MAX_BYTES, 1],
            id="beyond the largest payload a third frame follows",
        ),
    ],
)
def test_message_is_cut_into_as_few_frames_as_go_peers_accept(
    length: int, sizes: list[int]
) -> None:
    assert frame_sizes(encode_message(1, bytes(length))) == sizes


def test_frame_is_written_as_two_big_endian_words_and_its_payload() -> None:
    assert Frame(2, b"abc").encode() == bytes.fromhex("00000002 00000003 616263")


def test_largest_payload_is_accepted_and_one_byte_more_is_refused_on_its_header() -> None:
    assert frame_sizes(Frame(1, bytes(PAYLOAD_MAX_BYTES)).encode()) == [PAYLOAD_MAX_BYTES]
    header = (1).to_bytes(4, "big") + (PAYLOAD_MAX_BYTES + 1).to_bytes(4, "big")
    decoder = FrameDecoder()
    assert decoder.feed(header[:7]) == []
    with pytest.raises(WireError, match=f"frame of {PAYLOAD_MAX_BYTES + 1} bytes"):
        decoder.feed(header[7:])


def test_decoder_is_finished_after_an_error() -> None:
    decoder = FrameDecoder()
    with pytest.raises(WireError):
        decoder.feed(b"\xff" * 8)
    with pytest.raises(WireError, match="frame of 4294967295 bytes"):
        decoder.feed(Frame(1, b"fine").encode())


def test_frame_before_a_broken_one_is_delivered_and_the_next_call_raises() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(Frame(1, b"fine").encode() + b"\xff" * 8) == [Frame(1, b"fine")]
    assert decoder.fault
    with pytest.raises(WireError):
        decoder.feed(b"")

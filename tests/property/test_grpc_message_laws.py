"""Plain messages are those of protobuf, and of bytes that are none nothing is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.cmd.control.api import control_pb2 as api
from pinfold.cmd.control.grpc_client.grpc_messages import MessageError, content, request_bytes


@given(container=st.text(), source=st.text(), target=st.text())
def test_a_request_of_texts_is_what_protobuf_makes_of_it(
    container: str, source: str, target: str
) -> None:
    message = api.MoveRequest(container_id=container, from_pool=source, to_pool=target)
    plain = request_bytes({1: container, 2: source, 3: target})
    assert plain == message.SerializeToString()


@given(repair=st.booleans())
def test_a_request_of_truths_is_what_protobuf_makes_of_it(repair: bool) -> None:
    assert request_bytes({1: repair}) == api.AuditRequest(repair=repair).SerializeToString()


def test_a_name_that_is_no_text_is_asked_for_as_good_as_it_goes() -> None:
    asked = api.ExplainRequest.FromString(request_bytes({1: "web\udcff"}))
    assert asked.container == "web?"


@given(text=st.binary(max_size=1 << 15))
def test_the_content_of_an_answer_is_what_was_put_in(text: bytes) -> None:
    assert content(api.Document(json=text).SerializeToString()) == text


FIELDS = st.one_of(
    st.integers(0, 2**63).map(lambda number: request_bytes({2: number})),
    st.text().map(lambda text: request_bytes({3: text})),
    st.binary(min_size=8, max_size=8).map(lambda value: b"\x21" + value),
    st.binary(min_size=4, max_size=4).map(lambda value: b"\x2d" + value),
)


@given(before=st.lists(FIELDS), after=st.lists(FIELDS))
def test_fields_of_a_later_version_are_passed_over(before: list[bytes], after: list[bytes]) -> None:
    answer = b"".join((*before, api.Document(json=b"{}").SerializeToString(), *after))
    assert content(answer) == b"{}"


@given(st.binary(max_size=64))
def test_of_any_bytes_there_is_a_content_or_an_error(answer: bytes) -> None:
    try:
        found = content(answer)
    except MessageError:
        return
    assert len(found) <= len(answer)


@pytest.mark.parametrize(
    "answer",
    [b"\n\x03{}", b"\x0b", b"\n" + b"\xff" * 11, b"\n"],
    ids=["cut off", "an unknown kind", "a number without an end", "no length"],
)
def test_what_is_no_message_is_an_error(answer: bytes) -> None:
    with pytest.raises(MessageError):
        content(answer)

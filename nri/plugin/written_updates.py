"""Updates of many containers in an answer, as they are on the wire.

Whoever takes cpus of a wide pool changes those of hundreds of containers, and most of these have
one pinning. A message object of each takes six times as long as its text.
Source: the protobuf encoding (protobuf.dev/programming-guides/encoding).
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from google.protobuf.message import Message

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from ..api import nri_pb2
from ..wire.varint import varint
from .messages import update_message

_LENGTH_DELIMITED: Final = 2
_CONTAINER_ID: Final = nri_pb2.ContainerUpdate.CONTAINER_ID_FIELD_NUMBER


def written_updates(answer: type[Message], pinnings: Mapping[ContainerId, Pinning]) -> bytes:
    """Field `update` of an answer with the updates of several containers, without empty ones.

    The same bytes as of `update_messages`. With other fields of the answer before or behind it, it
    is the whole answer.
    """
    tag = _tag(answer.DESCRIPTOR.fields_by_name["update"].number)
    # Containers that share cpus have one pinning: it is written once.
    written: dict[int, bytes] = {}
    heads: dict[tuple[int, int], bytes] = {}
    parts: list[bytes] = []
    for container_id, pinning in pinnings.items():
        rest = written.get(id(pinning))
        if rest is None:
            rest = written[id(pinning)] = update_message(pinning).SerializeToString()
        if not (container_id and rest):
            continue
        name = container_id.encode()
        sizes = len(name), len(rest)
        head = heads.get(sizes)
        if head is None:
            own = _tag(_CONTAINER_ID) + varint(len(name))
            head = heads[sizes] = tag + varint(len(own) + sum(sizes)) + own
        parts += (head, name, rest)
    return b"".join(parts)


# Of fields there are few.
@cache
def _tag(number: int) -> bytes:
    return varint(number << 3 | _LENGTH_DELIMITED)

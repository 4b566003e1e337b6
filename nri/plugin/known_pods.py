"""Pods of the runtime's messages, each read once although all its containers bring it along."""

import threading
from typing import Final

from ...policy.model.container import Pod
from ..api import nri_pb2
from .messages import pod_value

PODS_MAX: Final = 64
"""The containers of a pod follow soon after it begins; one that was forgotten is read anew."""
BYTES_MAX: Final = 16 << 10
"""A pod with a longer message is read each time, so that the whole is bounded."""


class KnownPods:
    """The latest pods. Safe for several threads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[nri_pb2.PodSandbox, Pod]] = {}
        self._keeping = threading.Lock()

    def read(self, message: nri_pb2.PodSandbox) -> Pod:
        """The pod of a message; the same value as before where all of the message is the same."""
        known = self._known.get(message.id)
        if known is not None and known[0] == message:
            return known[1]
        pod = pod_value(message)
        if message.ByteSize() <= BYTES_MAX:
            # A copy: as long as a part of a message lives, the whole of it does.
            own = nri_pb2.PodSandbox()
            own.CopyFrom(message)
            with self._keeping:
                self._known.pop(message.id, None)
                self._known[message.id] = own, pod
                if len(self._known) > PODS_MAX:
                    del self._known[next(iter(self._known))]
        return pod

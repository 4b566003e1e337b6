"""Peers at the control socket: users and groups, as the kernel tells them.

gRPC keeps these to itself, so they are asked for before it has the connection.
"""

import errno
import os
import socket
import struct
from typing import Final

from msgspec import Struct

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group. Source: unix(7), SO_PEERCRED."""
_SO_PEERGROUPS: Final = 59
"""Source: Linux, include/uapi/asm-generic/socket.h; Python has no name for it."""
_GROUP: Final = struct.Struct("I")
_GROUPS_MAX: Final = 256
"""Of which Python can be told at once: its buffer has 1024 bytes at most."""


class Peer(Struct, frozen=True, kw_only=True):
    """The process at the other end of a socket."""

    user_id: int
    group_ids: frozenset[int]

    def is_privileged(self) -> bool:
        """Whether it is root's, or of the same user as this process."""
        return self.user_id in (0, os.geteuid())


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected UNIX socket, as it was when it connected. Raises `OSError`."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user_id, group_id = _CREDENTIALS.unpack(found)
    return Peer(user_id=user_id, group_ids=frozenset({group_id, *_groups(connection)}))


def _groups(connection: socket.socket) -> list[int]:
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUP.size * _GROUPS_MAX)
    except OSError as error:
        # Kernels before 4.13 know the first group alone; more groups than anybody has are none.
        if error.errno in (errno.ENOPROTOOPT, errno.ERANGE):
            return []
        raise
    return [one for (one,) in _GROUP.iter_unpack(found)]

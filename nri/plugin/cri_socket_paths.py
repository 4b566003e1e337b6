"""Paths of the CRI sockets of runtimes."""

import os
from collections.abc import Mapping
from typing import Final

from ..dispatch.cri_socket import CriSocket
from .runtime_versions import CONTAINERD, CRIO

AUTO: Final = "auto"
OFF: Final = "off"

_USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    CONTAINERD: (
        "/run/containerd/containerd.sock",
        "/run/k3s/containerd/containerd.sock",
        "/run/k0s/containerd.sock",
        "/var/snap/microk8s/common/run/containerd.sock",
    ),
    CRIO: ("/run/crio/crio.sock", "/var/run/crio/crio.sock"),
}
"""Source: the runtimes' defaults, and those of distributions with a containerd of their own."""


def runtime_socket_path(option: str) -> str:
    """The path of the runtime's CRI socket, for a proxy; empty where none is found.

    `option`: a path or `unix://` address, or "auto": the first usual one that is there.
    """
    if option not in (AUTO, OFF):
        return option.removeprefix("unix://")
    usual = (path for paths in _USUAL.values() for path in paths)
    return "" if option == OFF else next(filter(os.path.exists, usual), "")


def find_cri_socket(option: str, runtime: str, *, is_usual: bool) -> CriSocket | str:
    """The CRI socket of the runtime of this name; or why there is none, with the remedy.

    `option`: a path, or as the kubelet writes it a `unix://` address; "auto" or "off". A runtime at
    an unusual NRI socket (not `is_usual`) is none of those at the usual CRI sockets.
    """
    if option == OFF:
        return "the CRI socket is off (--cri-socket off)"
    if option != AUTO:
        return CriSocket(option.removeprefix("unix://"), runtime)
    if not is_usual:
        return "the NRI socket is not at its usual place — name the CRI socket with --cri-socket"
    for path in _USUAL.get(runtime, ()):
        if os.path.exists(path):
            return CriSocket(path, runtime)
    return f"no CRI socket of {runtime or 'this runtime'} is known — name it with --cri-socket"

"""The container runtimes the daemon can serve, and how it gets to them."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from ...nri.cri.cri_link import CriLink, ListenPlace
from ...nri.dispatch.cri_socket import CriSocket
from ...nri.plugin.cri_socket_paths import AUTO, find_cri_socket, runtime_socket_path
from ...nri.plugin.plugin import FindSender, RuntimeLink
from ...nri.plugin.session import Identity
from ...topology.sets.base_errors import PinfoldError
from ..kernel.cgroup_pins import cgroup_reader

if TYPE_CHECKING:
    from ...nri.embedded.embedded_runtime import EmbeddedRuntime

DEFAULT_SOCKET: Final = "/var/run/nri/nri.sock"

_CONNECT_SECONDS: Final = 5.0
_INDEX_DIGITS: Final = 2
# Newer runtimes refuse the registration of any other name. Source: NRI `pkg/api/plugin.go`.
_NAME: Final = re.compile(r"[a-zA-Z0-9_.+-]+")


class RuntimeOptionError(PinfoldError):
    """Options that say how to reach the runtime are unusable; the text says which."""


class Access(Struct, frozen=True, kw_only=True):
    """The way to reach one runtime; `where` names it in messages."""

    where: str
    link: RuntimeLink | CriLink
    identity: Identity
    embedded: EmbeddedRuntime | None = None
    kind: str = "nri"
    """The interface: nri, cri or embedded."""
    reason: str = ""
    """Why this one was chosen, where nobody said which."""


def find_runtime(
    kind: str,
    path: str,
    name: str,
    index: str,
    environment: Mapping[str, str],
    cri_socket: str = AUTO,
    root: str = "/",
    cri_listen: str | None = None,
) -> Access:
    """The access to the runtime of a kind: "auto", "nri", "cri" or "embedded".

    `cri_socket`: the path of its CRI socket, "auto" or "off"; `root`: the folder below which the
    proc/ and sys/ of its containers are; `cri_listen`: where a proxy serves the kubelet.

    A runtime that starts its plugins itself hands them a connection in the environment; then only
    that is used. Raises `RuntimeOptionError`.
    """
    identity = Identity(name=name, index=index)
    if len(index) != _INDEX_DIGITS or not (index.isascii() and index.isdigit()):
        raise RuntimeOptionError(f"--nri-plugin-index: {index!r} — write two digits, as in '90'")
    if not _NAME.fullmatch(name):
        raise RuntimeOptionError(
            f"--nri-plugin-name: {name!r} — write letters, digits and '_.+-' alone, as in 'pinfold'"
        )
    choice, reason = choose_kind(kind, path, environment, cri_listen)
    if choice == "cri":
        return structs.replace(_proxy(identity, cri_socket, cri_listen, root), reason=reason)
    if cri_listen is not None:
        whom = "the runtime is served over NRI" if choice == "nri" else "the runtime is on paper"
        raise RuntimeOptionError(
            f"--cri-listen: {whom} — choose --runtime cri or auto, or leave --cri-listen out"
        )
    if choice == "embedded":
        return structs.replace(_embedded(identity), reason=reason)
    handed = environment.get("NRI_PLUGIN_SOCKET", "")
    is_usual = bool(handed) or os.path.realpath(path) == os.path.realpath(DEFAULT_SOCKET)

    def find_sender(runtime: str) -> CriSocket | str:
        return find_cri_socket(cri_socket, runtime, is_usual=is_usual)

    if handed:
        return _handed_over(handed, environment, find_sender, root)
    link = RuntimeLink(
        connect=lambda: _connect(path), find_sender=find_sender, read_back=cgroup_reader(root)
    )
    return Access(where=path, link=link, identity=identity, reason=reason)


def choose_kind(
    kind: str,
    path: str,
    environment: Mapping[str, str],
    cri_listen: str | None,
    default: str = DEFAULT_SOCKET,
) -> tuple[str, str]:
    """The interface to use, and why; "auto" takes the first that fits.

    A service waits for its runtime, which may start later than we do, as does whoever names another
    path than the `default` one; the embedded one is for people who try this out on a machine
    without any.
    """
    if kind != "auto":
        return kind, ""
    if is_preinstalled(environment):
        return "nri", "the runtime started us as its plugin"
    if cri_listen is not None:
        return "cri", "--cri-listen is given"
    if path != default or environment.get("NOTIFY_SOCKET"):
        if os.path.exists(path):
            return "nri", f"its socket is at {path}"
        return "nri", f"waiting for its socket at {path}; there is no --cri-listen"
    silence = _silence(path)
    if not silence:
        return "nri", f"its socket at {path} answers"
    return "embedded", f"no NRI socket answers at {path} ({silence}) and there is no --cri-listen"


def _silence(path: str) -> str:
    """Why nobody answers at a socket; empty where somebody does."""
    with socket.socket(socket.AF_UNIX) as probe:
        # A runtime whose backlog is full is there, too.
        probe.setblocking(False)
        error = probe.connect_ex(path)
    return "" if error in (0, errno.EAGAIN) else os.strerror(error).lower()


def is_preinstalled(environment: Mapping[str, str]) -> bool:
    """Whether the runtime started this process as one of its plugins."""
    return bool(environment.get("NRI_PLUGIN_SOCKET", ""))


def _embedded(identity: Identity) -> Access:
    # Imported here: a node's daemon serves a real one.
    from ...nri.embedded.embedded_runtime import EmbeddedRuntime
    from ...nri.embedded.embedded_updates import embedded_link
    from ...nri.embedded.runtime_dialects import NEWEST

    runtime = EmbeddedRuntime(replace(NEWEST, name="embedded"))
    return Access(
        where="embedded runtime",
        kind="embedded",
        link=embedded_link(runtime),
        identity=identity,
        embedded=runtime,
    )


def _proxy(identity: Identity, cri_socket: str, listen: str | None, root: str) -> Access:
    if listen is None:
        raise RuntimeOptionError(
            "--runtime cri: the kubelet needs a socket of ours — name one with --cri-listen, such"
            " as /run/pinfold/cri.sock"
        )
    runtime = runtime_socket_path(cri_socket)
    if not runtime:
        raise RuntimeOptionError(
            f"--cri-socket: {cri_socket!r} names no socket of a runtime — name it, such as"
            " /run/containerd/containerd.sock"
        )
    place = ListenPlace(listen, runtime)
    link = CriLink(place=place, socket=runtime, read_back=cgroup_reader(root))
    return Access(where=runtime, link=link, identity=identity, kind="cri")


def _connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A runtime whose backlog is full would hold us for ever.
        sock.settimeout(_CONNECT_SECONDS)
        sock.connect(path)
        sock.settimeout(None)
    except OSError:
        sock.close()
        raise
    return sock


def _handed_over(
    text: str, environment: Mapping[str, str], find_sender: FindSender, root: str
) -> Access:
    try:
        descriptor = int(text)
        os.fstat(descriptor)
    except (ValueError, OSError) as error:
        raise RuntimeOptionError(
            f"NRI_PLUGIN_SOCKET: {text!r} is no open file — it is set by the runtime alone"
        ) from error
    identity = Identity(
        name=environment.get("NRI_PLUGIN_NAME", "pinfold"),
        index=environment.get("NRI_PLUGIN_IDX", "90"),
        is_preinstalled=True,
    )
    return Access(
        where="runtime that started us",
        link=RuntimeLink(
            connect=lambda: socket.socket(fileno=descriptor),
            find_sender=find_sender,
            read_back=cgroup_reader(root),
        ),
        identity=identity,
    )

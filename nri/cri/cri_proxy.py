"""The CRI proxy: the policy between the kubelet and a runtime, where there is no NRI.

One event loop in one thread serves all calls. Many of them wait for long (a pull of an image, a
stop with a grace period), which costs a loop nothing and a pool of threads a thread each; the
policy's turns are short, and everything that looks around is done by threads aside.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio

from ...policy.engine.engine import Engine
from ...policy.model.container import ContainerId
from ..api import cri_proxy_pb2 as cri
from ..dispatch.cri_socket import CriSocket
from ..dispatch.front import Front
from ..dispatch.report import Connected, Crashed, Disconnected, Report, SocketLost
from ..hints.hint_finder import HintFinder
from ..plugin.container_reader import ContainerReader
from .cri_link import CriLink, ListenPlaceError
from .cri_updates import CriUpdates, reader_by_runtime_id
from .event_stream import GET_EVENTS, EventStream
from .hooks import Hooks
from .known_containers import KnownContainers
from .policy_turns import PolicyTurns, tell
from .proxy_events import ProxiedPolicy, ProxyEvents
from .reconciler import LOOK_SECONDS, Reconciler
from .relay import Relay
from .runtime_list import read_pid
from .upstream import MESSAGE_OPTIONS, Upstream

_RETRY_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 2.0
"""For calls under way when the proxy ends."""
_SERVERS_MAX: Final = 4
"""Servers at once: all but the last one listen at sockets that somebody deleted."""
_RETIRE_SECONDS: Final = 300.0
"""For what was asked of a server that goes: the kubelet gives no call more than four minutes."""
_VERSION_SECONDS: Final = 10.0
_SERVER_OPTIONS: Final = (*MESSAGE_OPTIONS, ("grpc.so_reuseport", 0))


class CriProxy(Front):
    """The policy between a kubelet and a runtime's CRI socket; see `Front`."""

    def __init__(
        self,
        policy: Engine,
        link: CriLink,
        report: Report,
        *,
        machine_memory_bytes: int | None = None,
        finder: HintFinder | None = None,
        clock: Callable[[], float] = time.monotonic,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`look_seconds`: between two lists of the runtime's containers."""
        self._known = KnownContainers()
        read_back = link.read_back
        if read_back is not None:
            read_back = reader_by_runtime_id(read_back, self._known)
        super().__init__(
            policy, report, clock, read_back=read_back, machine_memory_bytes=machine_memory_bytes
        )
        self.look_seconds = look_seconds
        self._link = link
        self.proxied = ProxyEvents(self.events, self.actuator, self.owner, machine_memory_bytes)
        events = self.events
        self._reader = ContainerReader(
            finder, report, machine_memory_bytes, lambda one: events.policy.completed(one)
        )
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = False
        self.runtime = ""
        """Name and version of the runtime, as far as it is known."""

    def run(self) -> None:
        """Serve until `stop`."""
        self.actuator.start()
        try:
            asyncio.run(self._serve())
        finally:
            self._is_ready.clear()
            self.actuator.close()
            self.owner.close()
            self._link.place.close()

    def stop(self) -> None:
        """End `run` from another thread; nothing is undone."""
        with self._starting:
            self._is_stopped = True
            loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            tell(loop, stopping.set)

    async def _serve(self) -> None:
        stopping = asyncio.Event()
        with self._starting:
            self._loop, self._stopping = asyncio.get_running_loop(), stopping
            if self._is_stopped:
                return
        session = _Session(self._link, self._report, self._known, self._reader, self)
        try:
            await session.run(stopping, self._is_ready)
        finally:
            with self._starting:
                self._loop = self._stopping = None


class _Session:
    """All that lives as long as the loop does."""

    def __init__(
        self,
        link: CriLink,
        report: Report,
        known: KnownContainers,
        reader: ContainerReader,
        front: CriProxy,
    ) -> None:
        self._link = link
        self._report = report
        self._known = known
        self._front = front
        self._loop = asyncio.get_running_loop()
        self._adopted = asyncio.Event()
        self._wanted = asyncio.Event()
        """A list is wanted before its time."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="cri")
        self._upstream = Upstream(link.socket)
        policy = ProxiedPolicy(
            events=front.proxied,
            turns=PolicyTurns(front.owner),
            reader=reader,
            known=known,
            started=self._started,
        )
        self._hooks = Hooks(
            policy, report, self._threads, self._adopted, self._look_soon, link.cdi_folders
        )
        self._reconciler = Reconciler(
            policy, self._upstream, front.owner, self._hooks, front.look_seconds
        )
        self._stream = EventStream(self._upstream, self._happened, self._look_soon)
        streams = {GET_EVENTS: self._stream.serve}
        self._relay = Relay(
            self._upstream,
            self._hooks.table(),
            streams,
            lambda what, error: report(Crashed(what, error)),
        )

    async def run(self, stopping: asyncio.Event, is_ready: threading.Event) -> None:
        """Serve the kubelet until it is the end."""
        servers = [await self._listen()]
        tasks = [
            asyncio.create_task(self._watch(is_ready)),
            asyncio.create_task(self._stream.run()),
            asyncio.create_task(self._stay_listening(servers)),
        ]
        try:
            await _first_of(asyncio.create_task(_wait(stopping)), *tasks)
        finally:
            for task in (*tasks, *self._tasks):
                task.cancel()
            await asyncio.gather(*tasks, *self._tasks, return_exceptions=True)
            await asyncio.gather(*(one.stop(_GRACE_SECONDS) for one in servers))
            await self._upstream.close()
            self._threads.shutdown(wait=False)

    async def _listen(self) -> grpc.aio.Server:
        # The stubs leave the handlers' types open.
        server = grpc.aio.server(  # pyright: ignore[reportUnknownMemberType]
            options=_SERVER_OPTIONS, handlers=[self._relay]
        )
        try:
            server.add_insecure_port(f"unix:{self._link.place.prepare()}")
            await server.start()
            self._link.place.publish()
        except BaseException:
            # Where its socket is nobody finds it, and nobody would ever end it.
            await server.stop(None)
            raise
        return server

    async def _stay_listening(self, servers: list[grpc.aio.Server]) -> None:
        """Make the socket again where somebody deletes it: a kubelet that starts looks for it.

        By another server, as one that runs takes no further socket; who is connected stays so for
        the next few times, and then comes to the newest one.
        """
        place, told = self._link.place, ""
        while True:
            await asyncio.sleep(self._front.look_seconds)
            if place.is_there:
                continue
            try:
                servers.append(await self._listen())
            except (OSError, RuntimeError, ListenPlaceError) as error:
                known = isinstance(error, OSError) and error.strerror
                reason = known.lower() if known else str(error)
                if reason != told:
                    self._report(SocketLost(str(place.path), reason))
                told = reason
            else:
                self._report(SocketLost(str(place.path)))
                told = ""
            if len(servers) > _SERVERS_MAX:
                self._keep(_retire(servers.pop(0)))

    async def _watch(self, is_ready: threading.Event) -> None:
        """Know the runtime's containers whenever it is there."""
        reason = ""
        while True:
            found = await self._met()
            if found != reason and found:
                self._report(Disconnected(found, _RETRY_SECONDS))
            reason = found
            if not reason:
                is_ready.set()
                reason = await self._look_on()
                is_ready.clear()
                self._front.actuator.disconnect()
                self._report(Disconnected(reason, _RETRY_SECONDS))
            await asyncio.sleep(_RETRY_SECONDS)

    async def _met(self) -> str:
        """Why the runtime cannot be served, if so; else all that runs is known."""
        if not await self._upstream.is_connected():
            return f"cannot connect: nobody answers at {self._link.socket}"
        try:
            version = await self._upstream.ask(
                "Version", cri.Empty(), cri.VersionResponse, _VERSION_SECONDS
            )
            self._front.runtime = f"{version.runtime_name} {version.runtime_version}".strip()
            self._report(Connected(self._front.runtime))
            if self._adopted.is_set():
                await self._reconciler.look()
            else:
                await self._reconciler.adopt()
                self._adopted.set()
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        way = CriUpdates(CriSocket(self._link.socket, version.runtime_name), self._known)
        self._front.actuator.connect([way], "")
        return ""

    async def _look_on(self) -> str:
        """Read the lists until the runtime is gone; returns how that was seen."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._reconciler.pause_seconds):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._reconciler.look()
                self._front.events.heard()
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    return f"{error.code().name}: {error.details()}"
            except Exception as error:
                # One list that cannot be understood must not be the last one.
                self._report(Crashed("list of containers", error))

    def _look_soon(self) -> None:
        """Have the lists read soon. For any thread."""
        tell(self._loop, self._wanted.set)

    def _started(self, policy_id: ContainerId) -> None:
        """A container runs: find its process, by which its cgroup is read back. For any thread."""
        tell(self._loop, partial(self._spawn, policy_id))

    def _spawn(self, policy_id: ContainerId) -> None:
        self._keep(self._find_process(policy_id))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _find_process(self, policy_id: ContainerId) -> None:
        runtime_id = self._known.runtime_id(policy_id)
        with contextlib.suppress(grpc.aio.AioRpcError):
            if pid := await read_pid(self._upstream, runtime_id):
                self._front.actuator.run(policy_id, pid)

    def _happened(self, event: cri.EventResponse) -> None:
        """An event of the runtime's, which may come late, or be about a sandbox."""
        self._front.events.heard()
        kind = event.container_event_type
        if kind == cri.CONTAINER_STOPPED_EVENT:
            self._hooks.stopped(event.container_id)
        elif kind == cri.CONTAINER_DELETED_EVENT:
            self._hooks.removed(event.container_id)
        elif kind == cri.CONTAINER_STARTED_EVENT:
            self._hooks.seen_running(event.container_id)


async def _retire(server: grpc.aio.Server) -> None:
    """Take no more calls there, and end those that are under way in their time."""
    try:
        await server.stop(_RETIRE_SECONDS)
    except asyncio.CancelledError:
        await server.stop(_GRACE_SECONDS)
        raise


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _first_of(*tasks: asyncio.Task[None]) -> None:
    """Wait until one is over, and raise what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in done:
        one.result()

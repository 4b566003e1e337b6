"""Processes of the CRI benchmark: a runtime on paper, and a proxy that does nothing but pass on."""

import asyncio
import signal
import sys
import threading
from typing import NoReturn

import grpc.aio

from pinfold.nri.cri.relay import Relay
from pinfold.nri.cri.upstream import MESSAGE_OPTIONS, Upstream
from pinfold.nri.embedded.cri_server import EmbeddedCriServer
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime


async def pass_on(runtime: str, path: str) -> None:
    """Serve at a path until killed, and pass everything on to the runtime."""
    server = grpc.aio.server(  # pyright: ignore[reportUnknownMemberType]
        handlers=[Relay(Upstream(runtime), {}, {}, crashed)], options=MESSAGE_OPTIONS
    )
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    await server.wait_for_termination()


def crashed(what: str, error: Exception) -> NoReturn:
    """There are no hooks."""
    raise AssertionError(what) from error


def serve_runtime(path: str) -> None:
    """Be a runtime at a path until killed."""
    server = EmbeddedCriServer(EmbeddedRuntime())
    server.start(path)
    over = threading.Event()

    def end(_number: int, _frame: object) -> None:
        over.set()

    signal.signal(signal.SIGTERM, end)
    over.wait()


def main() -> None:
    """`runtime PATH`, or `proxy RUNTIME PATH`."""
    match sys.argv[1:]:
        case ["runtime", path]:
            serve_runtime(path)
        case ["proxy", runtime, path]:
            asyncio.run(pass_on(runtime, path))
        case _:
            sys.exit("runtime PATH | proxy RUNTIME PATH")


if __name__ == "__main__":
    main()

"""A plugin and an embedded runtime in one process, joined by a socketpair."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from msgspec import Struct

from pinfold.nri.dispatch.report import Happening, Report
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.runtime_dialects import NEWEST, Dialect
from pinfold.nri.plugin.plugin import Plugin, Timing
from pinfold.policy.engine.engine import Engine
from pinfold.topology.sets.base_errors import PinfoldError

_SECONDS: Final = 10.0


class Loopback(Struct, frozen=True):
    """Both ends of one connection."""

    runtime: EmbeddedRuntime
    plugin: Plugin


def _ignore(_happening: Happening) -> None:
    pass


@contextmanager
def loopback(
    policy: Engine,
    report: Report = _ignore,
    *,
    dialect: Dialect = NEWEST,
    timing: Timing | None = None,
    machine_memory_bytes: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    has_cri: bool = True,
    reads_back: bool = True,
) -> Generator[Loopback]:
    """A plugin around `policy` that is synchronized with an empty runtime.

    `has_cri`: whether the runtime has a CRI socket; `reads_back`: whether its cgroups can be read.
    Raises `PinfoldError` where it does not get that far.
    """
    runtime = EmbeddedRuntime(dialect)
    link = embedded_link(runtime)
    if not has_cri:
        link = replace(link, find_sender=None)
    if not reads_back:
        link = replace(link, read_back=None)
    plugin = Plugin(
        policy,
        link,
        report,
        clock=clock,
        timing=timing,
        machine_memory_bytes=machine_memory_bytes,
    )
    thread = threading.Thread(target=plugin.run, name="plugin", daemon=True)
    thread.start()
    try:
        if not (runtime.wait_until_synchronized(_SECONDS) and plugin.wait_until_ready(_SECONDS)):
            raise PinfoldError("loopback: the plugin did not connect to the embedded runtime")
        yield Loopback(runtime, plugin)
    finally:
        plugin.stop()
        thread.join()

"""Processes of plugins, and what they use up."""

import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import psutil

from tests.bench.plugins.plugin_command import Place, PluginCommand

ROOT: Final = Path(__file__).parents[3]

_ACCEPT_SECONDS: Final = 120
_LOOK_SECONDS: Final = 0.05
_END_SECONDS: Final = 20
_SCRAPE_SECONDS: Final = 1.0
_CPUCLOCK_SCHED: Final = 2
"""The clock of all threads of a process, the ended ones too. Source: linux posix-timers_types.h."""

_CONFIG: Final = """\
instrumentation:
  httpEndpoint: "127.0.0.1:{port}"
  prometheusExport: true
"""


class PluginEndedError(Exception):
    """A plugin ended, or did not come as far as it had to."""


class PluginProcess:
    """One plugin as a process, from its start to the end of its connection.

    Its standard output and error go to a file in its scratch folder.
    """

    def __init__(self, command: PluginCommand, place: Place) -> None:
        self._command = command
        self._place = place
        self.log = place.scratch / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._usage: psutil.Process | None = None
        place.scratch.mkdir(parents=True, exist_ok=True)
        config = _CONFIG.format(port=place.port)
        (place.scratch / "pinfold.yaml").write_text(config, encoding="utf-8")

    def start(self) -> socket.socket:
        """Run it; returns its connection to the runtime's socket.

        Raises `PluginEndedError`.
        """
        path = self._place.socket
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.fspath(path))
            listener.listen()
            listener.settimeout(_LOOK_SECONDS)
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command.words_at(self._place),
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                )
            self._usage = psutil.Process(self._process.pid)
            until = time.monotonic() + _ACCEPT_SECONDS
            while True:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    self.check()
                    if time.monotonic() > until:
                        raise PluginEndedError(self._complaint("does not connect")) from None
                else:
                    return connection

    def check(self) -> None:
        """Raise `PluginEndedError` if it does not run any more."""
        assert self._process is not None, "not started"
        status = self._process.poll()
        if status is not None:
            raise PluginEndedError(self._complaint(f"ended with status {status}"))

    def stop(self) -> None:
        """End it as a service manager does, and kill it if that does not help."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def cpu_ns(self) -> int:
        """The cpu time that all its threads have had, in user mode and in the kernel.

        Not that of children: a plugin that is run by a shell has to replace it (`exec`).
        """
        assert self._process is not None, "not started"
        # The kernel's number for the clock of another process; finer than the ticks in /proc.
        return time.clock_gettime_ns((~self._process.pid << 3) | _CPUCLOCK_SCHED)

    def resident_bytes(self) -> int:
        """The memory that it has in RAM."""
        assert self._usage is not None, "not started"
        return self._usage.memory_info().rss

    def written_bytes(self) -> int:
        """What it gave to write(2) and its like, on whatever file system. Source: proc(5), wchar.

        Programs that send to sockets by write(2) have that counted, too.
        """
        assert self._usage is not None, "not started"
        return self._usage.io_counters().write_chars

    def _complaint(self, what: str) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-10:]
        return "\n  ".join([f"{self._command.name} {what}; the end of its log:", *tail])


class Scraper:
    """Reads the metrics of a process once a second from `begin` on, oftener than Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._is_due = threading.Event()
        self._is_over = threading.Event()
        self._reading = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="scraper", daemon=True)
        self.scrapes = 0

    def __enter__(self) -> "Scraper":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._is_due.set()
        self._thread.join()

    def begin(self) -> None:
        """It is the process's turn, and somebody reads its metrics."""
        self._is_due.set()

    def pause(self) -> None:
        """It is somebody else's turn, once the reading that is under way is over."""
        self._is_due.clear()
        with self._reading:
            pass

    def _run(self) -> None:
        while self._is_due.wait() and not self._is_over.is_set():
            with self._reading:
                if self._is_due.is_set():
                    self._read()
            self._is_over.wait(_SCRAPE_SECONDS)

    def _read(self) -> None:
        try:
            with urllib.request.urlopen(self._url, timeout=_END_SECONDS) as page:
                page.read()
        except (urllib.error.URLError, OSError):
            pass  # a plugin without metrics, or not that far yet
        else:
            self.scrapes += 1


def free_port() -> int:
    """A TCP port of this host that nobody listens at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    assert isinstance(port, int)
    return port


def _environment() -> dict[str, str]:
    """This process's environment without what a plugin would take for its configuration.

    An installed program was compiled once; here its first start does that.
    """
    foreign = (
        *("PINFOLD_", "NRI_PLUGIN_", "NOTIFY_SOCKET", "WATCHDOG_", "STATE_DIRECTORY"),
        "PYTHONDONTWRITEBYTECODE",
    )
    return {name: one for name, one in os.environ.items() if not name.startswith(foreign)}

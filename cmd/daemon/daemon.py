"""The daemon: the policy of this machine behind a runtime, until somebody says stop."""

import contextlib
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from ...nri.cri.cri_link import CriLink
from ...nri.dispatch.front import Front
from ...nri.dispatch.owner import UnfinishedError
from ...nri.dispatch.report import Crashed, Fanout, Report, Tally
from ...nri.hints.hint_finder import HintFinder
from ...nri.plugin.plugin import Plugin, RuntimeLink, Timing
from ...nri.plugin.session import Identity
from ...policy.configuration.config import Config
from ...policy.configuration.config_text import CheckedConfig
from ...policy.engine.engine import Engine
from ...policy.text.errors import ConfigError
from ...topology.model.machine import Machine
from ...topology.sets.base_errors import PinfoldError
from .cold_starts import ColdStarts
from .deferred_start import DeferredStart
from .drift_audit import DriftAudit
from .heartbeat import Heartbeat
from .moves.refused_moves import RefusedMoves
from .moves.rule_watch import RuleWatch
from .sd_notify import Notifier
from .timers import Timers

_BUSY_SECONDS: Final = 10.0
_WAKINGS_MAX: Final = 1 << 16


def _do_nothing() -> None:
    pass


class Command(Enum):
    """Commands to the main thread, from signal handlers and other threads."""

    STOP = "stop"
    RELOAD = "reload"
    TOGGLE_DEBUG = "toggle debug"
    ENDED = "ended"
    """The front has nobody to talk to any more."""


class CommandQueue:
    """Commands to the main thread, which sleeps until there is one.

    Python runs a signal's handler once the main thread is back from its wait: one that comes on the
    way into it would be heard with the next one, or never. So it waits at a pipe, and `waker` is
    for `signal.set_wakeup_fd`: the kernel's signal writes there, before any handler is run.

    Of several readings of the configuration that nobody began one waits: it sees all changes, and a
    stop that is told behind them comes soon.
    """

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._is_reload_waiting = False
        self._pipe, self.waker = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.waker, False)
        # Never before: a signal would be written to whatever file has the number then.
        weakref.finalize(self, _close, self._pipe, self.waker).atexit = False

    def put(self, command: Command) -> None:
        """Have a command heard soon; for any thread, and for handlers of signals."""
        if command is Command.RELOAD:
            if self._is_reload_waiting:
                return
            self._is_reload_waiting = True
        self._commands.put(command)
        with contextlib.suppress(BlockingIOError):  # so much there that it wakes in any case
            os.write(self.waker, b"\0")

    def get(self) -> Command:
        """The next command, waited for; for the main thread."""
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                os.read(self._pipe, _WAKINGS_MAX)
                continue
            if command is Command.RELOAD:
                # Before it is begun: what changes from here on it may not see.
                self._is_reload_waiting = False
            return command


def _close(*descriptors: int) -> None:
    for one in descriptors:
        os.close(one)


class ReloadRecord(Struct, frozen=True):
    """The last reading of the configuration, and the last one without a fault."""

    is_good: bool
    good_at: float
    """In seconds since 1970; 0 where every one had a fault."""
    fault: str = ""
    """The first fault of the last reading; empty where it had none."""


class Daemon:
    """One machine, one configuration, one runtime.

    The front runs in threads of its own; `run` is for the main thread. `tell` may be called from
    signal handlers.
    """

    def __init__(
        self,
        machine: Machine,
        config: Config,
        link: RuntimeLink | CriLink,
        *,
        reports: Sequence[Report] = (),
        identity: Identity | None = None,
        timing: Timing | None = None,
        finder: HintFinder | None = None,
        clock: Callable[[], float] = time.monotonic,
        as_found: Callable[[Machine], Machine] | None = None,
    ) -> None:
        """`as_found`: what a machine is without our own changes to it, where there are any.

        Raises `ConfigError` where the configuration does not fit the machine.
        """
        self._as_found = as_found or _as_it_is
        self.timers = Timers(lambda what, error: self._report(Crashed(what, error)), clock)
        self.tally = Tally()
        cold_starts, self.refused_moves = ColdStarts(self.timers), RefusedMoves()
        self.deferred_start = DeferredStart(self.timers)
        self._report = Fanout(
            (self.tally, cold_starts, self.refused_moves, self.deferred_start, *reports)
        )
        self.commands: Final = CommandQueue()
        policy, memory = Engine(self._as_found(machine), config), memory_bytes(machine)
        self.front: Front
        """What stands between the runtime and the policy: an NRI plugin, or a CRI proxy."""
        if isinstance(link, RuntimeLink):
            self.front = Plugin(
                policy,
                link,
                self._report,
                identity=identity,
                timing=timing,
                machine_memory_bytes=memory,
                finder=finder,
            )
        else:
            # Imported here: gRPC takes as long to load as everything else.
            from ...nri.cri.cri_proxy import CriProxy

            self.front = CriProxy(
                policy, link, self._report, machine_memory_bytes=memory, finder=finder
            )
        cold_starts.start(self.front)
        self.written = CheckedConfig(config)
        """The configuration in force as it was written: complaints about it name file and line."""
        self.last_reload: ReloadRecord | None = None
        """None where the configuration was never read again."""
        self.state_fault: Callable[[], str] = str
        """What kept the state from being saved; empty where nothing did, or none is kept."""
        self.history_fault: Callable[[], str] = str
        """What kept decisions from being written, likewise."""
        self.audit = DriftAudit(self.front, self._report)
        self.rules = RuleWatch(self.front, self._report, clock, self.refused_moves)
        self.refused_moves.start(self.front, self.rules.refused)
        self.is_stopping = False
        """Whether the end is near: containers that run stay where they are."""
        self._thread = threading.Thread(target=self._serve, name="plugin", daemon=True)

    @property
    def engine(self) -> Engine:
        """The policy; ask it through `front.owner` while the daemon runs."""
        return self.front.events.policy

    @property
    def machine(self) -> Machine:
        """The machine as it was when it was looked at last."""
        return self.engine.machine

    @property
    def has_served(self) -> bool:
        """Whether a runtime ever told what runs."""
        return self.tally.synchronizations > 0

    def start(self) -> None:
        """Begin to connect to the runtime, and set its timers going."""
        self.timers.start()
        self._thread.start()

    def tell(self, command: Command) -> None:
        """Have `run` do this soon."""
        self.commands.put(command)

    def run(
        self,
        notifier: Notifier,
        reload: Callable[[], None],
        toggle_debug: Callable[[], None] = _do_nothing,
    ) -> Command:
        """Do what is told until it is the end. Needs `start` before and `stop` after."""
        heartbeat = self._heartbeat(notifier)
        try:
            orders = {Command.RELOAD: reload, Command.TOGGLE_DEBUG: toggle_debug}
            while (order := orders.get(command := self.commands.get())) is not None:
                order()
        finally:
            if heartbeat is not None:
                heartbeat.stop()
        return command

    def reconfigure(
        self,
        config: Config | None = None,
        machine: Machine | None = None,
        late: Callable[[bool | ConfigError], None] | None = None,
    ) -> bool:
        """Put another configuration or machine in force, and return whether anything differs.

        Containers keep their cpus where those stay legal. Raises `ConfigError`, or `TimeoutError`
        where the policy is busy, and the old one stays in force; or `UnfinishedError` where it is
        at it for long: `late` is told how that ends, in the policy's thread.
        """
        answer = self.front.owner.ask(
            "reconfigure", lambda: self._try(config, machine), _BUSY_SECONDS, late
        )
        if isinstance(answer, ConfigError):
            raise answer
        return answer

    def _try(self, config: Config | None, machine: Machine | None) -> bool | ConfigError:
        """A fault of the operator's is an answer: raised in the policy's thread it seems ours."""
        try:
            found = None if machine is None else self._as_found(machine)
            return self.front.events.reconfigure(config, found)
        except ConfigError as error:
            return error

    def note_reload(self, fault: str = "") -> None:
        """Remember how a reading of the configuration went, and when. `fault`: empty for none."""
        before = self.last_reload.good_at if self.last_reload else 0.0
        first = fault.partition("\n")[0]
        self.last_reload = ReloadRecord(not fault, before if fault else time.time(), first)

    def begin_stop(self) -> None:
        """Make no more moves and do nothing more at a time; who waits for a runtime is let go."""
        self.is_stopping = True
        self.front.actuator.let_go()
        self.timers.stop()

    def stop(self) -> None:
        """Leave the runtime. Containers keep what they have."""
        self.begin_stop()
        self.front.stop()
        self._thread.join()

    def _serve(self) -> None:
        try:
            self.front.run()
        finally:
            self.tell(Command.ENDED)

    def _heartbeat(self, notifier: Notifier) -> Heartbeat | None:
        """Only a policy that still answers is alive; without a watchdog nobody asks."""
        if notifier.watchdog_seconds is None:
            return None
        heartbeat = Heartbeat(
            lambda seconds: self.front.owner.ask("watchdog", lambda: None, seconds),
            notifier.alive,
            notifier.watchdog_seconds,
        )
        heartbeat.start()
        return heartbeat


def _as_it_is(machine: Machine) -> Machine:
    return machine


def memory_bytes(machine: Machine) -> int | None:
    """All memory of a machine; None where the kernel does not say."""
    return sum(node.memory_bytes or 0 for node in machine.numa_nodes) or None


def reload_configuration(
    daemon: Daemon, load: Callable[[], CheckedConfig], notifier: Notifier, log: logging.Logger
) -> None:
    """Read the configuration again; with a fault in it the old one stays in force."""
    notifier.reloading()
    known = daemon.engine.warnings

    def tell(loaded: CheckedConfig, answer: bool | ConfigError) -> None:
        daemon.note_reload(str(answer) if isinstance(answer, ConfigError) else "")
        if isinstance(answer, ConfigError):
            _tell_fault(answer, notifier, log)
            return
        daemon.written = loaded
        for warning in daemon.engine.warnings:
            if warning not in known:
                log.warning("%s", loaded.placed(warning))
        log.info("event=%s", "reconfigured" if answer else "reconfigured changed=nothing")
        notifier.reloaded("configuration reloaded")

    try:
        loaded = load()

        def tell_late(answer: bool | ConfigError) -> None:
            placed = loaded.placed_error(answer) if isinstance(answer, ConfigError) else answer
            tell(loaded, placed)

        with loaded.placing():
            differs = daemon.reconfigure(loaded.config, late=tell_late)
        tell(loaded, differs)
    except PinfoldError as error:
        daemon.note_reload(str(error))
        _tell_fault(error, notifier, log)
    except UnfinishedError as error:
        log.warning(
            "%s; the new configuration is in force once it is, unless it has a fault", error
        )
        notifier.reloaded("the new configuration is being put in force")
    except TimeoutError as error:
        daemon.note_reload(str(error))
        log.error("%s; the old configuration stays in force — reload again", error)
        notifier.reloaded("running with the old configuration: the policy was busy")
    except Exception:
        # Whatever we do wrong with a new configuration, the running containers keep their policy.
        daemon.note_reload("a fault of ours, which the log has")
        log.exception("event=fault during=reload; the old configuration stays in force")
        notifier.reloaded("running with the old configuration: the changed one was too much for us")


def _tell_fault(error: PinfoldError, notifier: Notifier, log: logging.Logger) -> None:
    for line in str(error).splitlines():
        log.error("%s; the old configuration stays in force", line)
    notifier.reloaded("running with the old configuration: the changed one has a fault")

"""Reports of events between the runtime and the policy, as values for logs and counters."""

import enum
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from ...policy.engine.decision import Decision
from ...policy.engine.reconfiguration import Move
from ...policy.model.container import Container, ContainerId
from ...policy.model.pinning import Change, Pinning
from ...policy.text.errors import Problem
from ...topology.sets.cpuset import CpuSet


class Outcome(enum.Enum):
    """The end that a call of the runtime came to."""

    DONE = "done"
    REFUSED = "refused"
    LATE = "late"
    """Answered safely at its deadline; the real answer follows as an update."""
    CRASHED = "crashed"
    """Answered safely because of a fault of ours."""
    UNKNOWN = "unknown"
    """No such method, or bytes that are no message."""

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


class Decided(Struct, frozen=True, kw_only=True):
    """The policy placed, resized, adopted or refused a container."""

    event: str
    """create, update, adopt, synchronize, move or replace; unmet where rules stopped holding, and
    return where a container stays as its runtime refuses to move it."""
    container: Container
    decision: Decision
    problems: tuple[Problem, ...] = ()
    """What could not be read in the runtime's message; the decision holds its own."""


class Identified(Struct, frozen=True):
    """The runtime has given its id to a container that was placed before."""

    container: Container


class Released(Struct, frozen=True):
    """A container stopped or went away, and others change for it."""

    container: Container
    changes: tuple[Change, ...]


class Synchronized(Struct, frozen=True):
    """The runtime's containers are known; so many of them are told other cpus or memory."""

    containers: int
    updates: int


class Reconfigured(Struct, frozen=True):
    """Another configuration or machine is in force; so many containers are told to change."""

    updates: int
    moves: tuple[Move, ...] = ()
    """Every container that was placed; most of them stay."""


class ColdStarted(Struct, frozen=True):
    """A container runs that is to get DRAM too, so long from now."""

    container_id: ContainerId
    nanoseconds: int


class Adjusted(Struct, frozen=True, kw_only=True):
    """A running container is told other memory or cpus although nothing happened to it."""

    cause: str
    container: Container
    change: Change


class Unplaceable(Struct, frozen=True):
    """A container is to be elsewhere, by rules required during its execution, and cannot be.

    Or it is to be alone on cpus of its own, and another one runs there that cannot be moved.
    """

    container: Container
    reason: str


class Unmoved(Struct, frozen=True):
    """Other containers are stuck than before, or elsewhere; so many are."""

    containers: int


class Connected(Struct, frozen=True):
    """The runtime configured us."""

    runtime: str
    """Its name and version."""


class Disconnected(Struct, frozen=True):
    """A connection ended, or was not made; None: there is no further attempt."""

    reason: str
    retry_seconds: float | None


class Answered(Struct, frozen=True):
    """A call of the runtime was answered."""

    method: str
    seconds: float
    outcome: Outcome


class Updated(Struct, frozen=True):
    """Updates the runtime did not ask for were made, or failed with an error."""

    containers: tuple[ContainerId, ...]
    error: str = ""


class CreationUndone(Struct, frozen=True, kw_only=True):
    """The runtime could not create a container after it had our answer.

    Two plugins that set the cpus of one container are a reason; runtimes do not say which it was.
    """

    container: Container
    times: int
    """How often that happened to containers of this name in this pod, without one that ran."""
    had_cpus: bool
    """Whether cpus were set when we were asked: by another plugin, or by the kubelet."""


class Unapplied(Struct, frozen=True):
    """A container has not got what it was told, several times in a row; it is told again."""

    container_id: ContainerId
    wanted: Pinning
    found: Pinning | None
    """What the kernel has; None where that cannot be read."""
    error: str


class Drifted(Struct, frozen=True, kw_only=True):
    """A container was found with another pinning than it should have; it is told again."""

    container: Container
    intended: Pinning
    kernel: Pinning
    likely: str
    """The program that may have changed it."""


class ThreadsNarrowed(Struct, frozen=True, kw_only=True):
    """Threads of a container were found bound to fewer cpus than it has, by whomever."""

    container: Container
    intended: CpuSet
    threads: Mapping[CpuSet, int]
    """How many there are by the cpus they are bound to."""


class Waiting(Struct, frozen=True):
    """Containers, so many, wait for the runtime's next call to be updated: no other way is open."""

    containers: int
    reason: str


class Suspect(Struct, frozen=True):
    """The runtime seems to hang for good: for so long it answered nothing and sent nothing."""

    seconds: float


class Recovered(Struct, frozen=True):
    """A suspect runtime was heard of again."""


class Unsupported(Struct, frozen=True):
    """The runtime cannot do a thing that was asked for; said once for each thing."""

    what: str


class SocketLost(Struct, frozen=True):
    """The socket at which the kubelet is served was deleted, and is made anew: or why it is not."""

    path: str
    reason: str = ""


class HintsMissing(Struct, frozen=True):
    """Containers, so many, are placed without hints they may have: the reason, with its remedy."""

    what: str
    containers: int


class Crashed(Struct, frozen=True):
    """A fault of ours; it was contained."""

    what: str
    error: Exception


Happening = (
    Decided
    | Identified
    | Released
    | Synchronized
    | Reconfigured
    | ColdStarted
    | Adjusted
    | Unplaceable
    | Unmoved
    | Connected
    | Disconnected
    | Answered
    | Updated
    | CreationUndone
    | Unapplied
    | Drifted
    | ThreadsNarrowed
    | Waiting
    | SocketLost
    | Suspect
    | Recovered
    | Unsupported
    | HintsMissing
    | Crashed
)

Report = Callable[[Happening], None]
"""Takes what happened. Called by the policy's thread (after the runtime has its answer), by the
connection's two and by others; it must be safe for all of them, must not raise and should not wait
for anybody."""


class Fanout:
    """A report to several others, each of which is told only what it takes.

    A report may name the kinds of happenings it takes in `takes`; others take all.
    """

    def __init__(self, reports: Iterable[Report]) -> None:
        self._reports = tuple(reports)
        self._by_kind: dict[type[object], tuple[Report, ...]] = {}

    def __call__(self, happening: Happening) -> None:
        """Tell those who take it."""
        kind = type(happening)
        reports = self._by_kind.get(kind)
        if reports is None:
            reports = self._by_kind[kind] = tuple(
                one for one in self._reports if kind in getattr(one, "takes", (kind,))
            )
        for report in reports:
            report(happening)


class Tally:
    """Counts what happened, as far as the daemon itself asks."""

    takes: tuple[type[object], ...] = (Connected, Synchronized, Drifted)

    def __init__(self) -> None:
        self.connections = 0
        self.synchronizations = 0
        self.drifts = 0
        """How often a container was found with a pinning that somebody else had changed."""

    def __call__(self, happening: Happening) -> None:
        """Count it."""
        match happening:
            case Connected():
                self.connections += 1
            case Synchronized():
                self.synchronizations += 1
            case Drifted():
                self.drifts += 1
            case _:
                pass

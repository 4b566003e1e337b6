"""Documents of a running node: the shapes of `-o json`, for the daemon and its clients.

Other programs read them: fields may be added, and none is renamed or left out. Cpus and memory
nodes are in the kernel's list format.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from ...policy.model.move_purpose import MovePurpose


class NodeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a document."""


class PinDocument(NodeDocument, frozen=True, kw_only=True):
    """Cpus and memory nodes; null for what is left alone."""

    cpus: str | None
    mems: str | None


class RuntimeDocument(NodeDocument, frozen=True, kw_only=True):
    """The runtime that the daemon serves."""

    kind: str
    name: str
    version: str
    connected: bool


class PoolDocument(NodeDocument, frozen=True, kw_only=True):
    """One pool: its cpus, what is taken of them and who is in it."""

    name: str
    cpus: str
    exclusive: str
    """The cpus that containers have for themselves, of this pool or of another one."""
    sharable: str
    """The cpus that containers share at present."""
    shared_milli: int
    """Promised to containers of exactly this pool."""
    free_milli: int
    mems: str
    containers: tuple[str, ...]


class ContainerDocument(NodeDocument, frozen=True, kw_only=True):
    """One placed container: where it should run, and where the kernel has it."""

    container: str
    id: str
    pool: str
    kind: str
    intended: PinDocument
    kernel: PinDocument | None
    granted_milli: int = 0
    """Its exclusive cpus and its share, in milli-cpus."""
    idle: str = ""
    """Idle cpus that it may use at the moment beside those of its pool."""
    placed_in: str = ""
    """The pool of the decision, where the container is in another one by now."""
    drift: bool
    decided_by: str
    problems: tuple[str, ...]


class RefusedDocument(NodeDocument, frozen=True, kw_only=True):
    """A container that got no place."""

    container: str
    at: str
    reason: str


class RefusalsDocument(NodeDocument, frozen=True, kw_only=True):
    """The refusals since the daemon's start, and the last one of each of the last containers."""

    count: int
    last: tuple[RefusedDocument, ...]
    """The newest first."""


class StatusDocument(NodeDocument, frozen=True, kw_only=True, omit_defaults=True):
    """The runtime, pools and containers of one moment."""

    runtime: RuntimeDocument
    pools: tuple[PoolDocument, ...]
    containers: tuple[ContainerDocument, ...]
    problems: tuple[str, ...]
    config_fault: str = ""
    """The first fault of the configuration as it was read last; empty where that is in force."""
    state_fault: str = ""
    """What kept the state from being saved last; empty where nothing did."""
    history_fault: str = ""
    """What kept decisions from being written last, likewise."""
    refusals: RefusalsDocument | None = None
    """Left out, as the faults are, where there is none."""


class ContainersDocument(NodeDocument, frozen=True, kw_only=True):
    """Containers alone."""

    containers: tuple[ContainerDocument, ...]


class RuleDocument(NodeDocument, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that counts for a container, whose it is and whom it matches."""

    owner: str
    text: str
    kind: str
    weight: int | None
    matches: tuple[str, ...]
    about_pools: bool = False
    """Whether it says in which pools its owner should be; left out where it is about containers."""


class GivenDocument(NodeDocument, frozen=True, kw_only=True):
    """An annotation that a rule of the configuration gives a container."""

    annotation: str
    value: str
    rule: str


class DroppedDocument(NodeDocument, frozen=True, kw_only=True):
    """The reason why a pool was no candidate."""

    criterion: str
    wanted: str
    available: str


class CandidateDocument(NodeDocument, frozen=True, kw_only=True):
    """A pool that was looked at: its rank by criterion in their order, or why it was dropped."""

    pool: str
    rank: Mapping[str, int] | None
    dropped: DroppedDocument | None


class MovedDocument(NodeDocument, frozen=True, kw_only=True):
    """Another container whose cpus or memory nodes changed with a decision."""

    container: str
    from_: PinDocument = msgspec.field(name="from")
    to: PinDocument


class DecisionDocument(NodeDocument, frozen=True, kw_only=True, omit_defaults=True):
    """One decision as far as it speaks for itself, whatever came later."""

    result: str
    pool: str | None = None
    cpus: str | None = None
    mems: str | None = None
    decided_by: str = ""
    against: str | None = None
    request: str = ""
    """What was asked for, in words."""
    unmet: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    candidates: tuple[CandidateDocument, ...] = ()
    moved: tuple[MovedDocument, ...] = ()


class ExplainDocument(NodeDocument, frozen=True, kw_only=True, omit_defaults=True):
    """One decision with its whole reason."""

    container: str
    at: str | None
    result: str
    pool: str | None
    cpus: str | None
    mems: str | None
    decided_by: str
    against: str | None
    request: Mapping[str, object]
    rules: tuple[RuleDocument, ...]
    candidates: tuple[CandidateDocument, ...]
    moved: tuple[MovedDocument, ...]
    alternatives: tuple[str, ...]
    given: tuple[GivenDocument, ...] = ()
    """Annotations by central rule; left out where there are none."""
    ended: bool = False
    """Whether the container holds that place no more; left out where it does, or never did."""


class FollowedDocument(NodeDocument, frozen=True, kw_only=True, omit_defaults=True):
    """A decision of this moment, or the end of a container."""

    at: str
    event: str
    """create, update, adopt, …; release for the end of a container, nothing for a sign of life."""
    container: str = ""
    id: str = ""
    result: str | None = None
    pool: str | None = None
    cpus: str | None = None
    mems: str | None = None
    decided_by: str = ""
    moved: tuple[MovedDocument, ...] = ()
    dropped: int = 0
    """How many were left out before it, as the client was too slow."""


class DriftDocument(NodeDocument, frozen=True, kw_only=True):
    """A container that the kernel has elsewhere."""

    container: str
    intended: PinDocument
    kernel: PinDocument
    likely: str
    repaired: bool


class AuditDocument(NodeDocument, frozen=True, kw_only=True):
    """The containers that were compared with the kernel, and those that differ."""

    containers: int
    drift: tuple[DriftDocument, ...]


class SiteDocument(NodeDocument, frozen=True, kw_only=True):
    """The place of a container before or after a planned move."""

    pool: str
    cpus: str
    mems: str


class PlannedMoveDocument(NodeDocument, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan; `bytes`: the memory that it migrates; `mends`: unmet required rules.

    `purpose`: in the words of `decided_by`; left out where containers wish it. `awaited`: those of
    the next moves that have to be with it.
    """

    container: str
    from_: SiteDocument = msgspec.field(name="from")
    to: SiteDocument
    gain: int
    bytes: int
    purpose: MovePurpose = MovePurpose.WISHES
    mends: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()


class PlanDocument(NodeDocument, frozen=True, kw_only=True):
    """Moves in the order in which they are to be made, and the scores around them."""

    score: int
    score_after: int
    moves: tuple[PlannedMoveDocument, ...]


class MoveDocument(NodeDocument, frozen=True, kw_only=True):
    """The end that a move came to: where the container is, and why it is not where it should be."""

    container: str
    moved: bool
    reason: str | None
    pool: str
    pin: PinDocument


GRANT: Final = "grant"
REFUSAL: Final = "refusal"

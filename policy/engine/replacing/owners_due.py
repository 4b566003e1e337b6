"""Owners of rules required during execution that do not hold, and when each is to be moved."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...model.container import ContainerId
from ..engine import Engine
from ..settled_node import SettledNode

SECOND: Final = 10**9
_AGAIN: Final = 30 * SECOND
"""At least between two attempts with a container that cannot be elsewhere."""
_AGAIN_MOST: Final = 30 * 60 * SECOND
"""After each attempt it is twice as long, up to this, for as long as nothing changes."""


class _DueOwner(Struct):
    """An owner: `when` it is to be moved, and what came of it so far."""

    when: int
    grace: int
    attempts: int = 0
    """In vain, since something changed."""
    last: int | None = None
    """When the last attempt was; None before the first one."""
    reason: str = ""
    """Why it stayed where it is then."""


class OwnersDue:
    """The owners that are to be moved. Times are in nanoseconds that never go back.

    One that cannot be elsewhere is tried again more and more rarely, for the policy would only say
    the same. Where anybody comes, goes or changes it is due as soon as after the first time.
    """

    def __init__(self) -> None:
        self._owners: dict[ContainerId, _DueOwner] = {}
        self._seen: SettledNode | None = None
        """The node at the last look, where some owner was tried in vain."""

    def __contains__(self, container_id: ContainerId) -> bool:
        return container_id in self._owners

    def note(self, found: Mapping[ContainerId, Sequence[str]], engine: Engine, now: int) -> None:
        """Note what a look at rules found: the rules of owners that do not hold.

        O(grants) where somebody was tried in vain.
        """
        grace = int(engine.config.during_execution.grace_seconds * SECOND)
        for container_id, texts in found.items():
            if not texts:
                self.forget(container_id)
                continue
            self._owners.setdefault(container_id, _DueOwner(now + grace, grace))
        for container_id in [one for one in self._owners if one not in engine.grants]:
            self.forget(container_id)
        for owner in self._owners.values():
            if owner.last is None:
                # The rule has to be broken for all of the grace period, however long it is by now.
                owner.when += grace - owner.grace
            owner.grace = grace
        self._hasten(engine)

    def due(self, now: int) -> list[ContainerId]:
        """The owners whose time has come, those first that have waited longest."""
        found = [one for one, owner in self._owners.items() if owner.when <= now]
        return sorted(found, key=lambda one: self._owners[one].when)

    def next(self, now: int) -> int | None:
        """The next time, after this one, at which some owner is due."""
        return min((one.when for one in self._owners.values() if one.when > now), default=None)

    def wait(self, container_id: ContainerId, until: int) -> None:
        """Leave an owner for later that was not tried."""
        self._owners[container_id].when = until

    def stays(
        self, container_id: ContainerId, reason: str, engine: Engine, now: int, *, attempts: int = 0
    ) -> bool:
        """Note that an owner was tried in vain. Returns whether that has another reason by now.

        `attempts`: how often it was so before it was noted.
        """
        if self._seen is None:
            self._seen = SettledNode.of(engine)
        owner = self._owners.setdefault(container_id, _DueOwner(now, 0))
        least, owner.attempts = max(owner.grace, _AGAIN), max(owner.attempts, attempts)
        owner.when = now + max(least, min(least * 2**owner.attempts, _AGAIN_MOST))
        owner.attempts, owner.last = owner.attempts + 1, now
        is_other = owner.reason != reason
        owner.reason = reason
        return is_other

    def went(self, container_id: ContainerId, engine: Engine) -> None:
        """Forget an owner that was moved, with those in its pen, which went along.

        Whether their own rules hold by now is seen at the next look.
        """
        self.forget(container_id)
        grant = engine.grants.get(container_id)
        pen = grant.pen if grant is not None else None
        for one in [*self._owners] if pen is not None else ():
            other = engine.grants.get(one)
            if other is not None and other.pen == pen:
                self.forget(one)

    def forget(self, container_id: ContainerId) -> None:
        """Forget an owner whose rules hold, or that is gone."""
        self._owners.pop(container_id, None)

    def _hasten(self, engine: Engine) -> None:
        """Make due what might come to another end by now."""
        tried = [(one, one.last) for one in self._owners.values() if one.last is not None]
        before, self._seen = self._seen, SettledNode.of(engine) if tried else None
        # Compared in C, as nearly all are the same objects.
        if before != self._seen:
            for one, last in tried:
                one.attempts, one.when = 0, min(one.when, last + max(one.grace, _AGAIN))

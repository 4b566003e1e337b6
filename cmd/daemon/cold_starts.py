"""Containers that begin without DRAM get it when their time is over."""

from typing import Final

from ...nri.dispatch.front import Front
from ...nri.dispatch.report import ColdStarted, Happening, Released
from ...policy.model.container import ContainerId
from .timers import Timers

_NANOSECONDS: Final = 1e9


class ColdStarts:
    """A report that notes who starts cold, and lets the policy end it in time.

    The time runs on over reconnections. It begins anew with a restart of the daemon, which cannot
    know how much of it is over.
    """

    takes = (ColdStarted, Released)

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._front: Front | None = None

    def __call__(self, happening: Happening) -> None:
        """Note who begins and who is gone."""
        match happening:
            case ColdStarted(container_id=container_id, nanoseconds=nanoseconds):
                self._timers.once(
                    _entry(container_id),
                    nanoseconds / _NANOSECONDS,
                    lambda: self._end(container_id),
                )
            case Released(container=container):
                self._timers.cancel(_entry(container.id))
            case _:
                pass

    def start(self, front: Front) -> None:
        """Ends of cold starts are told to the policy of `front` from here on."""
        self._front = front

    def _end(self, container_id: ContainerId) -> None:
        if (front := self._front) is not None:
            front.owner.submit(
                "end of a cold start", lambda: front.events.end_cold_start(container_id)
            )


def _entry(container_id: ContainerId) -> str:
    return f"cold start of {container_id}"

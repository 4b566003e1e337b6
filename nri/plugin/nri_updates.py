"""Updates as NRI `UpdateContainers`, for runtimes that cannot hang over them."""

from collections.abc import Mapping
from typing import Final

from ...policy.model.container import ContainerId
from ...policy.model.pinning import Pinning
from ..api import nri_pb2
from ..dispatch.update_sender import NoAnswerError
from .messages import update_messages
from .session import Session

_ANSWER_SECONDS: Final = 60.0


class NriUpdates:
    """The sender of updates over the plugin's own connection."""

    raises_events: bool = False
    """Whether events ask about each update: they do not."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        """Send all at once, and one by one where some fail: the runtime may not say which."""
        error = self._request(updates)
        if not error:
            return {}
        if len(updates) == 1:
            return dict.fromkeys(updates, error)
        alone = {one: self._request({one: pinning}) for one, pinning in updates.items()}
        return {one: reason for one, reason in alone.items() if reason}

    def close(self) -> None:
        """Updates under way end with the connection, so there is nothing to do."""

    def _request(self, updates: Mapping[ContainerId, Pinning]) -> str:
        message = nri_pb2.UpdateContainersRequest(update=update_messages(updates))
        reply = self._session.request("UpdateContainers", message, _ANSWER_SECONDS)
        if reply is None:
            raise NoAnswerError("no answer")
        if reply.code:
            return reply.message or f"code {reply.code}"
        failed = nri_pb2.UpdateContainersResponse.FromString(reply.payload).failed
        return "the runtime could not make the update" if failed else ""

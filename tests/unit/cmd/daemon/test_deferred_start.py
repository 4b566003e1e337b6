"""What waits for the first answer to the runtime is done behind it, or after a while."""

from pinfold.cmd.daemon.deferred_start import WAIT_SECONDS, DeferredStart
from pinfold.cmd.daemon.timers import Timers
from pinfold.nri.dispatch.report import Synchronized


class Moment:
    """A clock and timers by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []
        self.timers = Timers(lambda _what, error: self.done.append(str(error)), self.clock)
        self.service = DeferredStart(self.timers)

    def clock(self) -> float:
        return self.now

    def ask_for(self, name: str) -> None:
        self.service.add(name, lambda: self.done.append(name))

    def pass_by(self, seconds: float) -> list[str]:
        self.now += seconds
        self.timers.work_off()
        return self.done


def test_work_waits_for_the_first_answer_and_is_done_once() -> None:
    moment = Moment()
    moment.ask_for("web")
    assert moment.pass_by(WAIT_SECONDS / 2) == []
    moment.service(Synchronized(3, 0))
    assert moment.pass_by(0) == ["web"]
    moment.service(Synchronized(3, 0))
    assert moment.pass_by(2 * WAIT_SECONDS) == ["web"]


def test_without_a_runtime_work_is_done_after_a_while() -> None:
    moment = Moment()
    moment.ask_for("web")
    assert moment.pass_by(WAIT_SECONDS) == ["web"]

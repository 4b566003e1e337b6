"""The way out to a runtime: what is sent, what waits, and a runtime that hangs."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from pinfold.nri.dispatch.actuator import SILENCE_SECONDS, Actuator
from pinfold.nri.dispatch.report import (
    Crashed,
    Happening,
    Recovered,
    Suspect,
    Unapplied,
    Updated,
    Waiting,
)
from pinfold.nri.dispatch.update_sender import NoAnswerError
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

A, B = ContainerId("a"), ContainerId("b")
SECONDS = 5.0


def pinned(*cpus: int) -> Pinning:
    return Pinning(cpus=CpuSet.of(*cpus), mems=NodeSet.of(0))


class Clock:
    """Time that goes on, and jumps."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Runtime:
    """A way, and the kernel behind it."""

    def __init__(self) -> None:
        self.kernel: dict[ContainerId, Pinning] = {}
        self.sent: list[Mapping[ContainerId, Pinning]] = []
        self.failures: dict[ContainerId, str] = {}
        self.answers = threading.Event()
        self.answers.set()
        self.is_over = False
        self.raises_events = True

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        self.sent.append(updates)
        if not self.answers.wait(20):
            raise NoAnswerError("no answer")
        self.kernel.update({one: new for one, new in updates.items() if one not in self.failures})
        return {one: self.failures[one] for one in updates if one in self.failures}

    def close(self) -> None:
        self.is_over = True

    def read(self, container_id: ContainerId, _pid: int, _likely: Pinning | None) -> Pinning | None:
        return self.kernel.get(container_id)


class Bench:
    """An actuator with its runtime, its clock, and what it reported."""

    def __init__(self) -> None:
        self.clock, self.runtime = Clock(), Runtime()
        self.happenings: list[Happening] = []
        self.actuator = Actuator(
            self.happenings.append, self.clock, read_back=self.runtime.read, check_seconds=0.01
        )
        self.actuator.start()

    def run(self, container_id: ContainerId, pinning: Pinning) -> None:
        """A container is created, and runs with what it was created with."""
        self.runtime.kernel[container_id] = pinning
        self.actuator.create(container_id, pinning)
        self.actuator.run(container_id, 17)

    def seen(self, kind: type) -> list[Happening]:
        return [one for one in self.happenings if isinstance(one, kind)]

    def wait(self, holds: Callable[[], object]) -> None:
        until = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.001)


@pytest.fixture(name="bench")
def fixture_bench() -> Iterator[Bench]:
    bench = Bench()
    bench.actuator.connect([bench.runtime], "")
    yield bench
    bench.runtime.answers.set()
    bench.actuator.close()


def test_what_is_wanted_is_sent_and_acknowledged(bench: Bench) -> None:
    bench.run(A, pinned(0, 1))
    bench.actuator.want({A: pinned(1)})
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.kernel[A] == pinned(1)
    assert bench.actuator.acknowledged(A) == pinned(1)
    assert bench.happenings == [Updated((A,))]


def test_nothing_is_sent_where_kernel_and_policy_agree(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.actuator.answer({A: pinned(0)})
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.sent == []


def test_an_answer_that_the_runtime_lost_is_made_good(bench: Bench) -> None:
    bench.run(A, pinned(0, 1))
    assert bench.actuator.answer({A: pinned(1)}) == {A: pinned(1)}
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.kernel[A] == pinned(1)


@pytest.mark.parametrize("raises_events", [True, False])
def test_an_update_overtaken_by_somebody_elses_is_made_good(
    bench: Bench, *, raises_events: bool
) -> None:
    bench.runtime.raises_events = raises_events
    bench.run(A, pinned(0))
    assert bench.actuator.settle(SECONDS)
    bench.runtime.answers.clear()
    bench.actuator.want({A: pinned(0, 1)})
    bench.wait(lambda: bench.runtime.sent)
    bench.actuator.want({A: pinned(1)})
    # The event of another caller's update, whose answer repeats what is wanted by now.
    others = bench.actuator.echo(A, {})
    assert (others is not None) is raises_events, "what raises no event has no echo"
    if others is None:
        assert bench.actuator.answer({A: pinned(1)}) == {A: pinned(1)}
    bench.runtime.answers.set()
    if raises_events:
        # Such a runtime asks about ours too, and writes the answer in its place.
        bench.wait(lambda: bench.runtime.kernel[A] == pinned(0, 1))
        bench.runtime.kernel[A] = pinned(1)
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.kernel[A] == pinned(1)


def test_a_failure_is_tried_again_until_it_is_told_as_not_applied(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.run(B, pinned(0))
    bench.runtime.failures[A] = "no such luck"
    bench.actuator.want({A: pinned(1), B: pinned(1)})
    for _ in range(3):
        assert bench.actuator.settle(SECONDS)
        bench.clock.ahead += 100
    assert bench.runtime.kernel == {A: pinned(0), B: pinned(1)}
    assert Updated((B,)) in bench.happenings
    bench.wait(lambda: bench.seen(Unapplied))
    [told] = bench.seen(Unapplied)
    assert told == Unapplied(A, pinned(1), None, "no such luck")
    assert bench.actuator.looks()[A].problem == "no such luck"
    bench.runtime.failures.clear()
    bench.clock.ahead += 100
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.kernel[A] == pinned(1)
    assert not any(look.problem for look in bench.actuator.looks().values())


def test_without_a_way_it_waits_for_the_next_answer_and_says_so_once(bench: Bench) -> None:
    bench.actuator.disconnect()
    bench.actuator.connect([], "the CRI socket is off")
    bench.run(A, pinned(0))
    bench.run(B, pinned(0))
    bench.actuator.want({A: pinned(1)})
    assert bench.actuator.settle(SECONDS)
    bench.actuator.want({B: pinned(1)})
    bench.wait(lambda: bench.seen(Waiting))
    assert bench.seen(Waiting) == [Waiting(1, "the CRI socket is off")]
    assert bench.actuator.counts().waiting == 2
    assert bench.actuator.answer({}) == {A: pinned(1), B: pinned(1)}
    assert bench.runtime.sent == []


def test_nothing_is_settled_before_the_thread_has_looked(bench: Bench) -> None:
    """Whoever asks right after it wants something may be faster than the thread wakes."""
    interval = sys.getswitchinterval()
    # Long enough that the thread gets its turn only when this one waits.
    sys.setswitchinterval(1.0)
    try:
        for number in range(100):
            bench.actuator.connect([], "there is no CRI socket")
            container_id = ContainerId(f"c{number}")
            bench.run(container_id, pinned(0, 1))
            assert bench.actuator.settle(SECONDS)
            bench.actuator.want({container_id: pinned(1)})
            assert bench.actuator.settle(SECONDS)
            assert len(bench.seen(Waiting)) == number + 1
    finally:
        sys.setswitchinterval(interval)


def test_whoever_waits_until_all_is_settled_is_let_go_at_the_end(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.runtime.answers.clear()
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.runtime.sent)
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(bench.actuator.settle(60)))
    waiting.start()
    bench.actuator.let_go()
    waiting.join(20)
    assert found == [False]
    bench.runtime.answers.set()
    bench.wait(lambda: bench.actuator.acknowledged(A) == pinned(1))


def test_an_answer_does_not_wait_for_whoever_is_told_that_updates_wait() -> None:
    hung, gate = threading.Event(), threading.Event()

    def report(_happening: Happening) -> None:
        hung.set()
        gate.wait(SECONDS)

    actuator = Actuator(report, time.monotonic)
    actuator.start()
    actuator.connect([], "the CRI socket is off")
    actuator.create(A, pinned(0))
    actuator.run(A, 1)
    actuator.want({A: pinned(1)})
    assert hung.wait(SECONDS)
    started = time.monotonic()
    assert actuator.answer({}) == {A: pinned(1)}
    assert time.monotonic() - started < SECONDS / 2
    gate.set()
    actuator.close()


def test_a_runtime_that_hangs_is_sent_nothing_more_until_it_is_heard_of(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.run(B, pinned(0))
    bench.runtime.answers.clear()
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.runtime.sent)
    bench.clock.ahead += SILENCE_SECONDS / 2
    assert not bench.actuator.is_suspect
    bench.clock.ahead += SILENCE_SECONDS
    bench.wait(lambda: bench.actuator.is_suspect)
    bench.wait(lambda: bench.seen(Suspect))
    bench.actuator.want({B: pinned(1)})
    assert len(bench.runtime.sent) == 1
    bench.actuator.heard()
    assert not bench.actuator.is_suspect
    assert bench.seen(Recovered)
    bench.runtime.answers.set()
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.kernel == {A: pinned(1), B: pinned(1)}


def test_a_runtime_that_calls_meanwhile_is_only_slow(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.runtime.answers.clear()
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.runtime.sent)
    # However late this thread wakes: twice as long in all, and far from it at a time.
    for _ in range(5):
        bench.clock.ahead += 0.4 * SILENCE_SECONDS
        bench.actuator.heard()
        time.sleep(0.3)
    assert not bench.actuator.is_suspect


def test_what_was_under_way_when_the_connection_ended_is_sent_to_the_next(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.runtime.answers.clear()
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.runtime.sent)
    bench.actuator.disconnect()
    assert bench.runtime.is_over
    newer = Runtime()
    bench.actuator.connect([newer], "")
    bench.wait(lambda: newer.sent)
    assert newer.sent == [{A: pinned(1)}]


def test_a_container_that_is_gone_is_not_sent_anything(bench: Bench) -> None:
    bench.actuator.disconnect()
    bench.run(A, pinned(0))
    bench.actuator.want({A: pinned(1)})
    bench.actuator.forget(A)
    bench.actuator.connect([bench.runtime], "")
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.sent == []


def test_what_no_other_way_takes_leaves_with_the_next_answer(bench: Bench) -> None:
    """As with a CRI socket that is not the runtime's: its attempts must not hold others up."""
    bench.run(A, pinned(0))
    bench.runtime.failures[A] = "nobody listens"
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.actuator.looks()[A].problem)
    assert bench.actuator.answer({}) == {A: pinned(1)}
    assert bench.actuator.answer({}) == {}, "once for each attempt"


def test_a_container_with_which_the_runtime_hangs_does_not_hold_up_others_again(
    bench: Bench,
) -> None:
    bench.run(A, pinned(0))
    bench.run(B, pinned(0))
    bench.runtime.failures[A] = "no answer"
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.actuator.looks()[A].problem)
    bench.actuator.want({A: pinned(1), B: pinned(1)})
    bench.clock.ahead += 100
    bench.wait(lambda: len(bench.runtime.sent) > 2)
    assert all(len(one) == 1 for one in bench.runtime.sent)
    assert bench.actuator.settle(SECONDS)
    assert bench.runtime.kernel[B] == pinned(1)


def test_a_failed_update_of_a_container_that_is_gone_is_no_failure(bench: Bench) -> None:
    bench.run(A, pinned(0))
    bench.runtime.answers.clear()
    bench.runtime.failures[A] = "NOT_FOUND"
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.runtime.sent)
    bench.actuator.forget(A)
    bench.runtime.answers.set()
    bench.run(B, pinned(0))
    bench.actuator.want({B: pinned(1)})
    assert bench.actuator.settle(SECONDS)
    assert bench.happenings == [Updated((B,))]


def test_a_fault_with_one_container_does_not_end_the_work_for_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, read = bench.runtime.send, bench.runtime.read

    def faulty_send(updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        if A in updates:
            raise ZeroDivisionError("a fault of ours")
        return send(updates)

    monkeypatch.setattr(bench.runtime, "send", faulty_send)
    bench.run(A, pinned(0))
    bench.actuator.want({A: pinned(1)})
    bench.wait(lambda: bench.seen(Crashed))
    bench.run(B, pinned(0))
    bench.actuator.want({B: pinned(1)})
    bench.wait(lambda: bench.actuator.acknowledged(B) == pinned(1))
    assert read(B, 17, None) == pinned(1)


def test_whoever_looks_at_the_kernel_says_what_it_has_as_a_rule() -> None:
    asked: list[Pinning | None] = []

    def read(_container_id: ContainerId, _pid: int, likely: Pinning | None) -> Pinning | None:
        asked.append(likely)
        return likely

    actuator = Actuator(lambda _: None, Clock(), read_back=read)
    actuator.create(A, pinned(0))
    assert actuator.kernel(A) == pinned(0)
    assert actuator.kernel(B) is None
    assert asked == [pinned(0), None]


def test_a_fault_in_reading_back_counts_as_what_cannot_be_read() -> None:
    happenings: list[Happening] = []

    def fail(_container_id: ContainerId, _pid: int, _likely: Pinning | None) -> Pinning | None:
        raise ZeroDivisionError("a fault of ours")

    actuator, runtime = Actuator(happenings.append, Clock(), read_back=fail), Runtime()
    actuator.start()
    actuator.connect([runtime], "")
    actuator.create(A, pinned(0))
    actuator.run(A, 17)
    assert actuator.settle(SECONDS)
    actuator.close()
    assert runtime.kernel == {A: pinned(0)}, "so it is told"
    assert isinstance(happenings[0], Crashed)

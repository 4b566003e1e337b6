import threading

from pinfold.nri.outbox import Outbox
from pinfold.policy.container import ContainerId
from pinfold.policy.decision import Pinning
from pinfold.topology.cpuset import CpuSet

A, B = ContainerId("a"), ContainerId("b")


def pinned(*cpus: int) -> Pinning:
    return Pinning(cpus=CpuSet.of(*cpus))


def open_outbox() -> Outbox:
    outbox = Outbox()
    outbox.open()
    return outbox


def test_the_last_word_about_a_container_is_sent() -> None:
    outbox = open_outbox()
    outbox.post({A: pinned(0), B: pinned(1)})
    outbox.post({A: pinned(2)})
    assert outbox.take() == {A: pinned(2), B: pinned(1)}


def test_an_answer_makes_older_words_void() -> None:
    outbox = open_outbox()
    outbox.post({A: pinned(0), B: pinned(1)})
    outbox.answered({A: pinned(2)})
    assert outbox.take() == {B: pinned(1)}


def test_a_container_answered_while_an_update_is_in_flight_is_sent_again() -> None:
    outbox = open_outbox()
    outbox.post({A: pinned(0)})
    outbox.take()
    outbox.answered({A: pinned(2)})
    assert outbox.take() == {A: pinned(2)}


def test_a_container_that_is_gone_is_not_sent() -> None:
    outbox = open_outbox()
    outbox.post({A: pinned(0), B: pinned(1)})
    outbox.forget(A)
    assert outbox.take() == {B: pinned(1)}


def test_it_is_empty_once_everything_has_landed() -> None:
    outbox = open_outbox()
    outbox.post({A: pinned(0)})
    assert not outbox.wait_until_empty(0)
    outbox.take()
    assert not outbox.wait_until_empty(0)
    outbox.landed()
    assert outbox.wait_until_empty(0)


def test_nothing_is_taken_while_there_is_nobody_to_send_to() -> None:
    outbox = Outbox()
    taken: list[object] = []
    thread = threading.Thread(target=lambda: taken.append(outbox.take()))
    thread.start()
    outbox.post({A: pinned(0)})
    thread.join(0.02)
    assert thread.is_alive()
    outbox.open()
    thread.join(5)
    assert taken == [{A: pinned(0)}]


def test_whoever_waits_is_let_go_at_the_end() -> None:
    outbox = open_outbox()
    taken: list[object] = []
    thread = threading.Thread(target=lambda: taken.append(outbox.take()))
    thread.start()
    outbox.close()
    thread.join(5)
    assert taken == [None]

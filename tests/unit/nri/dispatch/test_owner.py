import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from pinfold.nri.dispatch.owner import Owner, UnfinishedError
from pinfold.nri.dispatch.turn import Done, Failed, Turn

LONG = 5.0


class Desk:
    """An owner, and what it complained about."""

    def __init__(self) -> None:
        self.crashes: list[tuple[str, Exception]] = []
        self.owner = Owner(lambda what, error: self.crashes.append((what, error)))


@pytest.fixture(name="desk")
def fixture_desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.owner.close()


def test_work_is_done_in_the_order_it_came(desk: Desk) -> None:
    done: list[int] = []
    for number in range(5):
        desk.owner.submit("append", partial(done.append, number))
    desk.owner.ask("wait", lambda: None)
    assert done == [0, 1, 2, 3, 4]


def test_waiter_gets_the_value_and_nobody_else(desk: Desk) -> None:
    late: list[int] = []
    assert desk.owner.submit("three", lambda: 3, late.append).wait(5) == Done(3)
    desk.owner.ask("wait", lambda: None)
    assert late == []


def test_value_goes_to_late_once_the_waiter_gave_up(desk: Desk) -> None:
    gate = threading.Event()
    late: list[int] = []

    def slow() -> int:
        gate.wait(5)
        return 3

    turn = desk.owner.submit("slow", slow, late.append)
    assert turn.wait(0.001) is None
    assert late == []
    gate.set()
    desk.owner.ask("wait", lambda: None)
    assert late == [3]


def test_what_is_answered_is_noted_before_work_that_came_behind_it_is_done(desk: Desk) -> None:
    noted: list[str] = []

    def answered(value: str) -> str:
        noted.append(value)
        return f"{value}, and what waits"

    begun, gate = threading.Event(), threading.Event()

    def occupy() -> None:
        begun.set()
        gate.wait(5)

    desk.owner.submit("hold", occupy)
    assert begun.wait(5)
    call = Turn("create", lambda: "3-7", in_time=answered)
    assert not desk.owner.hold(call)
    newer = desk.owner.submit("reload", lambda: noted.append("3-6"))
    gate.set()
    assert newer.wait(5) == Done(None)
    assert noted == ["3-7", "3-6"], "though nobody has fetched the answer yet"
    assert call.wait(5) == Done("3-7, and what waits")


def test_a_late_answer_is_never_noted_as_given(desk: Desk) -> None:
    noted: list[int] = []
    late: list[int] = []
    gate = threading.Event()

    def slow() -> int:
        gate.wait(5)
        return 3

    def in_time(value: int) -> int:
        noted.append(value)
        return value

    call = Turn("slow", slow, late.append, in_time)
    server = threading.Thread(target=desk.owner.serve, args=(call, 5.0))
    server.start()
    assert call.wait(0.01) is None
    gate.set()
    server.join()
    assert (noted, late) == ([], [3])


def test_work_that_raises_is_told_to_the_waiter_and_reported_and_the_thread_lives(
    desk: Desk,
) -> None:
    error = RuntimeError("broken")

    def broken() -> None:
        raise error

    assert desk.owner.submit("broken work", broken).wait(5) == Failed(error)
    assert desk.owner.ask("three", lambda: 3) == 3
    assert desk.crashes == [("broken work", error)]


def test_question_raises_what_its_work_raises(desk: Desk) -> None:
    def broken() -> None:
        raise KeyError("which")

    with pytest.raises(KeyError, match="which"):
        desk.owner.ask("broken work", broken)


def test_question_to_a_busy_policy_times_out(desk: Desk) -> None:
    gate = threading.Event()
    desk.owner.submit("slow", lambda: gate.wait(5))
    with pytest.raises(TimeoutError, match=r"status: the policy is busy for more than 0\.001 s"):
        desk.owner.ask("status", lambda: 3, 0.001)
    gate.set()


def test_work_nobody_waits_for_any_more_is_not_begun(desk: Desk) -> None:
    gate = threading.Event()
    done: list[str] = []
    desk.owner.submit("slow", lambda: gate.wait(5))
    with pytest.raises(TimeoutError) as raised:
        desk.owner.ask("change", lambda: done.append("change"), 0.001, late=lambda _: None)
    assert not isinstance(raised.value, UnfinishedError)
    gate.set()
    desk.owner.ask("wait", lambda: None)
    assert done == []


def test_work_that_was_begun_is_said_to_be_and_its_value_follows(desk: Desk) -> None:
    gate, has_begun = threading.Event(), threading.Event()
    late: list[int] = []

    def slow() -> int:
        has_begun.set()
        gate.wait(5)
        return 3

    with pytest.raises(UnfinishedError, match=r"change: begun, and not over after 1 s"):
        # So long that the owner's thread has begun by then, however busy the machine is.
        desk.owner.ask("change", slow, 1, late.append)
    assert has_begun.is_set()
    assert late == []
    gate.set()
    desk.owner.ask("wait", lambda: None)
    assert late == [3]


def test_afterwards_comes_before_the_next_work_and_after_the_answer(desk: Desk) -> None:
    order: list[str] = []

    def work() -> None:
        desk.owner.afterwards(lambda: order.append("after"))
        order.append("work")

    desk.owner.submit("work", work)
    desk.owner.submit("next", lambda: order.append("next"))
    desk.owner.ask("wait", lambda: None)
    assert order == ["work", "after", "next"]


def test_closed_owner_lets_callers_do_their_work_themselves() -> None:
    done: list[str] = []
    owner = Owner(lambda what, error: done.append(f"{what}: {error}"))
    owner.submit("first", lambda: done.append("first"))
    owner.close()

    def save() -> str:
        owner.afterwards(lambda: done.append("afterwards"))
        return "saved"

    assert owner.ask("save", save, seconds=0.0) == "saved"
    assert done == ["first", "afterwards"]


def test_work_that_hands_in_work_after_the_end_has_it_done_behind_it() -> None:
    done: list[str] = []
    owner = Owner(lambda what, error: done.append(f"{what}: {error}"))
    owner.close()

    def save() -> None:
        owner.submit("reload", reload)
        owner.afterwards(lambda: done.append("log"))
        done.append("save")

    def reload() -> None:
        owner.submit("tell", lambda: done.append("tell"))
        done.append("reload")

    thread = threading.Thread(target=lambda: owner.ask("save", save), daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive()
    assert done == ["save", "reload", "log", "tell"]


def test_a_call_that_hands_in_work_while_the_owner_is_closed_ends() -> None:
    done: list[str] = []
    owner = Owner(lambda what, error: done.append(f"{what}: {error}"))
    begun, closing = threading.Event(), threading.Event()

    def stop() -> None:
        begun.set()
        assert closing.wait(LONG)
        owner.submit("tell", lambda: done.append("tell"))
        done.append("stop")

    def serve() -> None:
        owner.serve(Turn("stop", stop), LONG)
        while owner.left:
            owner.tidy()

    calling = threading.Thread(target=serve, daemon=True)
    calling.start()
    assert begun.wait(LONG)
    # The owner's thread ends only once it is its turn, behind the call.
    owner.submit("memory", lambda: done.append("memory"))
    ending = threading.Thread(target=owner.close, daemon=True)
    ending.start()
    while not is_closed(owner):
        time.sleep(0.001)
    closing.set()
    for thread in (calling, ending):
        thread.join(LONG)
        assert not thread.is_alive()
    assert sorted(done) == ["memory", "stop", "tell"]


def is_closed(owner: Owner) -> bool:
    return owner._is_closed  # pyright: ignore[reportPrivateUsage]  # no other sign of it


def handed_in(owner: Owner) -> int:
    return owner._handed_in  # pyright: ignore[reportPrivateUsage]  # no other sign of it


def test_a_call_is_done_by_whoever_serves_it_and_in_its_thread(desk: Desk) -> None:
    served = Turn("create", threading.get_ident)
    assert desk.owner.serve(served, 5) == Done(threading.get_ident())


def test_a_call_behind_one_that_was_late_is_done_behind_it(desk: Desk) -> None:
    gate = threading.Event()
    done: list[str] = []
    late: list[None] = []
    desk.owner.submit("reload", lambda: gate.wait(5))
    while desk.owner.serve(Turn("probe", lambda: None), 0) is not None:
        pass  # until the reload is at it
    first = Turn("first", lambda: done.append("first"), late.append)
    assert desk.owner.serve(first, 0.001) is None
    second = Turn("second", lambda: done.append("second"))
    threading.Timer(0.05, gate.set).start()
    assert desk.owner.serve(second, 5) == Done(None)
    assert (done, late) == (["first", "second"], [None])


def test_a_call_behind_one_that_still_waits_for_its_turn_is_done_behind_it(desk: Desk) -> None:
    for _ in range(20):
        begun, gate = threading.Event(), threading.Event()
        done: list[str] = []

        def reload(begun: threading.Event = begun, gate: threading.Event = gate) -> None:
            begun.set()
            gate.wait(LONG)

        desk.owner.submit("reload", reload)
        assert begun.wait(LONG)
        first = Turn("first", partial(done.append, "first"))
        waiting = threading.Thread(target=desk.owner.serve, args=(first, LONG))
        waiting.start()
        while handed_in(desk.owner) < 2:
            time.sleep(0.001)
        # As by a thread that gave the first one up, which its own thread has not noticed yet.
        assert desk.owner.serve(Turn("second", partial(done.append, "second")), 0.001) is None
        gate.set()
        desk.owner.ask("wait", lambda: None)
        waiting.join(LONG)
        assert done == ["first", "second"]


def test_what_is_left_is_done_piece_by_piece_and_before_work_that_is_handed_in(desk: Desk) -> None:
    done: list[str] = []

    def work() -> None:
        desk.owner.afterwards(lambda: done.append("log"))
        desk.owner.afterwards(lambda: done.append("state"))

    desk.owner.serve(Turn("create", work), 5)
    assert (done, len(desk.owner.left)) == ([], 2)
    assert desk.owner.tidy()
    assert done == ["log"]
    desk.owner.ask("metrics", lambda: done.append("metrics"))
    assert done == ["log", "state", "metrics"]
    assert not desk.owner.left


def test_what_is_left_and_raises_is_reported_and_what_is_behind_it_is_done(desk: Desk) -> None:
    error = RuntimeError("broken")
    done: list[str] = []

    def broken() -> None:
        raise error

    def work() -> None:
        desk.owner.afterwards(broken)
        desk.owner.afterwards(lambda: done.append("state"))

    desk.owner.serve(Turn("create", work), LONG)
    assert desk.owner.tidy()
    assert desk.crashes == [("afterwards", error)]
    assert desk.owner.tidy()
    # And where the owner's thread comes by before the runtime is quiet.
    desk.owner.serve(Turn("create", work), LONG)
    assert desk.owner.ask("metrics", lambda: [*done]) == ["state", "state"]
    assert desk.crashes == [("afterwards", error)] * 2


def test_what_a_call_under_way_leaves_is_done_before_work_that_is_handed_in_meanwhile(
    desk: Desk,
) -> None:
    begun, gate = threading.Event(), threading.Event()
    done: list[str] = []

    def create() -> None:
        begun.set()
        assert gate.wait(LONG)
        desk.owner.afterwards(lambda: done.append("log"))

    call = threading.Thread(target=desk.owner.serve, args=(Turn("create", create), LONG))
    call.start()
    assert begun.wait(LONG)
    reload = desk.owner.submit("reload", lambda: done.append("reload"))
    # The owner's thread waits for the call by then.
    assert reload.wait(0.1) is None
    gate.set()
    call.join(LONG)
    desk.owner.ask("wait", lambda: None)
    assert done == ["log", "reload"]


def test_nothing_comes_before_a_turn_that_is_held(desk: Desk) -> None:
    done: list[str] = []
    notice: Turn[None] = Turn("start", lambda: done.append("start"))
    assert desk.owner.hold(notice)
    settled = desk.owner.submit("settle", lambda: done.append("settle"))
    assert not desk.owner.tidy()
    desk.owner.do_held(notice)
    assert settled.wait(5) == Done(None)
    assert done == ["start", "settle"]


def test_a_turn_that_cannot_be_held_is_done_in_its_order(desk: Desk) -> None:
    gate = threading.Event()
    done: list[str] = []
    desk.owner.submit("reload", lambda: gate.wait(5))
    while desk.owner.serve(Turn("probe", lambda: None), 0) is not None:
        pass
    assert not desk.owner.hold(Turn("start", lambda: done.append("start")))
    gate.set()
    desk.owner.ask("wait", lambda: None)
    assert done == ["start"]


def test_a_look_is_taken_by_who_asks_for_it_where_nobody_is_at_work(desk: Desk) -> None:
    assert desk.owner.look("who", threading.get_ident) == threading.get_ident()
    desk.owner.ask("wait", lambda: None)
    with pytest.raises(ZeroDivisionError):
        desk.owner.look("divide", lambda: 1 // 0)
    assert [what for what, _ in desk.crashes] == ["divide"]


def test_a_look_comes_behind_what_was_handed_in_or_left_before(desk: Desk) -> None:
    gate = threading.Event()
    done: list[str] = []
    desk.owner.submit("slow", lambda: gate.wait(5))
    desk.owner.submit("reload", lambda: done.append("reload"))
    threading.Timer(0.05, gate.set).start()
    assert desk.owner.look("look", lambda: list(done)) == ["reload"]
    call = Turn("create", lambda: desk.owner.afterwards(lambda: done.append("log")))
    desk.owner.serve(call, 5)
    assert desk.owner.look("look", lambda: list(done)) == ["reload", "log"]


def test_a_look_at_a_busy_policy_times_out(desk: Desk) -> None:
    gate = threading.Event()
    desk.owner.submit("slow", lambda: gate.wait(5))
    with pytest.raises(TimeoutError, match="look"):
        desk.owner.look("look", lambda: None, 0.01)
    gate.set()


def test_a_look_at_a_closed_owner_is_taken_all_the_same() -> None:
    desk = Desk()
    desk.owner.close()
    assert desk.owner.look("look", lambda: 3) == 3

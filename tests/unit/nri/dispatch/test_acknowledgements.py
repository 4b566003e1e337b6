"""When a container counts as having what it was told, and when it is told again."""

import pytest

from pinfold.nri.dispatch.acknowledgements import (
    FIRST_RETRY_SECONDS,
    LAST_RETRY_SECONDS,
    UNSEEN_START_SECONDS,
    Acknowledgements,
)
from pinfold.nri.dispatch.pin_state import Mismatch, Stage
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

A, B, C = ContainerId("a"), ContainerId("b"), ContainerId("c")
CHECK = 0.5


def pinned(*cpus: int) -> Pinning:
    return Pinning(cpus=CpuSet.of(*cpus), mems=NodeSet.of(0))


@pytest.fixture(name="books")
def fixture_books() -> Acknowledgements:
    """Books of a kernel that can be read, with A running on cpu 0 and acknowledged."""
    books = Acknowledgements(CHECK, can_read_back=True)
    books.create(A, pinned(0))
    books.start(A, 17, 0.0)
    books.observe(A, pinned(0), 0.0)
    return books


def stage(books: Acknowledgements, now: float) -> Stage | None:
    """What is due for A at a time."""
    return next((one for one in Stage if A in books.due(one, now)), None)


def test_a_created_container_is_acknowledged_once_it_runs_with_its_cpus() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    books.create(A, pinned(0))
    assert books.acknowledged(A) is None
    assert stage(books, 9.0) is None, "nothing can be seen before it runs"
    assert books.start(A, 17, 1.0) == 1.0 + CHECK
    assert stage(books, 1.0) is None, "it was told nothing, so it is looked at with others"
    assert stage(books, 1.0 + CHECK) is Stage.CHECK
    assert books.sought(A)[0] == 17
    assert books.observe(A, pinned(0), 1.0) is None
    assert books.acknowledged(A) == pinned(0)
    assert stage(books, 9.0) is None


def test_containers_told_one_after_the_other_are_looked_at_together() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    for one in (A, B):
        books.create(one, pinned(0))
    assert books.start(A, 17, 1.1) == books.start(B, 18, 1.2) == 1.75
    assert books.next_due(can_tell=False) == 1.75


def test_what_was_told_while_it_started_and_is_not_there_is_told_again_at_once() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    books.create(A, pinned(0, 1))
    books.told({A: pinned(1)}, 0.0)
    assert stage(books, 9.0) is None
    assert books.start(A, 17, 1.0) == 1.0
    assert stage(books, 1.0) is Stage.CHECK, "what it was told may be lost: that cannot wait"
    assert books.observe(A, pinned(0, 1), 1.0) is None, "it was lost, which is no failure"
    assert stage(books, 1.0) is Stage.TELL


def test_without_a_look_at_the_kernel_it_is_told_again_once_it_runs() -> None:
    books = Acknowledgements(CHECK, can_read_back=False)
    books.create(A, pinned(0, 1))
    books.told({A: pinned(1)}, 0.0)
    books.start(A, 17, 1.0)
    assert stage(books, 1.0) is Stage.TELL


def test_without_a_look_at_the_kernel_what_it_was_created_with_is_believed() -> None:
    books = Acknowledgements(CHECK, can_read_back=False)
    books.create(A, pinned(0))
    books.start(A, 17, 1.0)
    assert books.acknowledged(A) == pinned(0)


def test_what_went_out_in_an_answer_is_read_back_after_a_while(books: Acknowledgements) -> None:
    books.told({A: pinned(1)}, 10.0)
    assert stage(books, 10.0) is None
    assert books.next_due(can_tell=False) == 10.0 + CHECK
    assert stage(books, 10.0 + CHECK) is Stage.CHECK
    books.observe(A, pinned(1), 11.0)
    assert books.acknowledged(A) == pinned(1)


def test_an_update_that_the_runtime_confirms_while_it_runs_is_acknowledged(
    books: Acknowledgements,
) -> None:
    books.want({A: pinned(1)}, 10.0)
    telling = books.depart([A])
    assert {one: told.pinning for one, told in telling.items()} == {A: pinned(1)}
    assert books.acknowledged(A) is None, "it has the old or the new one"
    books.arrive(A, telling[A], "", 11.0)
    assert books.acknowledged(A) == pinned(1)


def test_an_update_confirmed_before_it_runs_is_not(books: Acknowledgements) -> None:
    books.create(B, pinned(0))
    books.want({B: pinned(1)}, 10.0)
    telling = books.depart([B])
    books.arrive(B, telling[B], "", 11.0)
    assert books.acknowledged(B) is None
    books.start(B, 18, 12.0)
    assert books.due(Stage.CHECK, 12.0) == [B]


@pytest.mark.parametrize("order", [(A, B, C), (C, B, A), (B, A, C)])
def test_of_those_who_get_one_pinning_only_who_had_it_has_it(
    books: Acknowledgements, order: tuple[ContainerId, ...]
) -> None:
    had, gets = pinned(0), pinned(1)
    for name, pinning in ((B, pinned(1)), (C, had)):
        books.create(name, pinning)
        books.start(name, 1, 0.0)
        books.observe(name, pinning, 1.0)
    books.told(dict.fromkeys(order, gets), 2.0)
    assert [one for one in order if books.acknowledged(one)] == [B]
    assert all(books.wanted(one) == gets for one in order)


def test_a_newer_pinning_while_one_is_under_way_is_told_too(books: Acknowledgements) -> None:
    books.want({A: pinned(1)}, 10.0)
    telling = books.depart([A])
    books.want({A: pinned(2)}, 10.5)
    assert stage(books, 10.5) is None, "one at a time"
    books.arrive(A, telling[A], "", 11.0)
    assert books.acknowledged(A) is None
    assert stage(books, 11.0) is Stage.TELL
    assert books.depart([A])[A].pinning == pinned(2)


def test_after_an_answer_crossed_an_update_the_kernel_is_looked_at(
    books: Acknowledgements,
) -> None:
    books.want({A: pinned(1)}, 10.0)
    telling = books.depart([A])
    books.told({A: pinned(1)}, 10.5)
    books.arrive(A, telling[A], "", 11.0)
    assert books.acknowledged(A) is None
    assert stage(books, 11.0) is Stage.CHECK


def test_an_update_whose_own_event_was_answered_with_something_newer_carried_that(
    books: Acknowledgements,
) -> None:
    books.want({A: pinned(1)}, 10.0)
    telling = books.depart([A])
    books.want({A: pinned(2)}, 10.5)
    assert books.echo(A)
    books.arrive(A, telling[A], "", 11.0)
    assert books.acknowledged(A) == pinned(2)


def test_only_an_update_of_our_own_has_an_echo(books: Acknowledgements) -> None:
    assert not books.echo(A)
    assert not books.echo(B)


def test_failures_are_tried_again_with_growing_pauses(books: Acknowledgements) -> None:
    books.want({A: pinned(1)}, 0.0)
    now, pauses = 0.0, list[float]()
    for failures in range(1, 12):
        telling = books.depart([A])
        mismatch = books.arrive(A, telling[A], "no such luck", now)
        assert mismatch is not None
        assert (mismatch.failures, mismatch.error) == (failures, "no such luck")
        due = books.next_due(can_tell=True)
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses[0] == FIRST_RETRY_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_RETRY_SECONDS
    assert books.looks()[A].problem == "no such luck"
    assert books.counts().failing == 1


def test_something_newer_is_tried_without_a_pause(books: Acknowledgements) -> None:
    books.want({A: pinned(1)}, 0.0)
    books.arrive(A, books.depart([A])[A], "no such luck", 0.0)
    books.want({A: pinned(2)}, 0.1)
    assert stage(books, 0.1) is Stage.TELL
    assert books.looks()[A].problem == ""


def test_what_waits_goes_out_with_the_next_answer_but_not_twice(books: Acknowledgements) -> None:
    books.want({A: pinned(1)}, 10.0)
    assert books.for_answer([A], 9, 10.0) == {}, "the answer speaks of it already"
    assert books.for_answer([], 9, 10.0) == {A: pinned(1)}
    assert books.for_answer([], 9, 10.0) == {}


def test_an_answer_carries_so_many_and_no_more() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    ids = [ContainerId(f"c{number}") for number in range(5)]
    books.want({one: pinned(0) for one in ids}, 0.0)
    assert len(books.for_answer([], 3, 0.0)) == 3
    assert len(books.for_answer([], 3, 0.0)) == 2


def test_what_cannot_be_read_is_told_twice_and_then_left_alone(books: Acknowledgements) -> None:
    books.told({A: pinned(1)}, 0.0)
    books.observe(A, None, 1.0)
    assert books.for_answer([], 9, 1.0) == {A: pinned(1)}
    books.observe(A, None, 2.0)
    assert stage(books, 99.0) is None
    assert books.acknowledged(A) is None
    assert books.counts().blind == 1


def test_what_it_had_once_is_not_believed_after_it_was_told_something_else() -> None:
    books = Acknowledgements(CHECK, can_read_back=False)
    books.create(A, pinned(0))
    books.start(A, 17, 0.0)
    books.told({A: pinned(1)}, 1.0)
    books.told({A: pinned(0)}, 2.0)
    books.observe(A, None, 3.0)
    assert stage(books, 3.0) is Stage.TELL


def test_what_cannot_be_read_is_told_until_the_runtime_confirms_it() -> None:
    books = Acknowledgements(CHECK, can_read_back=False)
    books.create(A, pinned(0))
    books.start(A, 17, 0.0)
    for now in (1.0, 2.0, 3.0):
        books.told({A: pinned(1)}, now)
        books.observe(A, None, now, can_confirm=True)
        assert stage(books, now) is Stage.TELL
    telling = books.depart([A])
    books.arrive(A, telling[A], "", 4.0)
    assert books.acknowledged(A) == pinned(1)


def test_a_list_of_all_that_runs_is_no_proof_of_what_the_kernel_has() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    books.synchronize({A: pinned(0), B: pinned(1)}, {A: 17}, 0.0)
    assert books.due(Stage.CHECK, 0.0) == [A], "B does not run"
    assert books.observe(A, pinned(0, 1), 0.0) is None, "nobody told it yet"
    assert stage(books, 0.0) is Stage.TELL


def test_a_container_listed_before_it_ran_is_told_again_in_case_its_start_was_not_seen() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    books.synchronize({A: pinned(0)}, {}, 0.0)
    assert stage(books, UNSEEN_START_SECONDS - 0.1) is None
    assert stage(books, UNSEEN_START_SECONDS) is Stage.TELL
    books.start(A, 17, 1.0)
    assert stage(books, 1.0) is Stage.CHECK


@pytest.mark.parametrize("is_answer", [True, False], ids=["in an answer", "by an update"])
def test_one_listed_before_it_ran_and_told_then_is_told_once_more(*, is_answer: bool) -> None:
    """The runtime takes an update of one that is starting for its specification alone."""
    books = Acknowledgements(CHECK, can_read_back=True)
    books.synchronize({A: pinned(0)}, {}, 0.0)
    if is_answer:
        books.told({A: pinned(1)}, 0.1)
    else:
        books.want({A: pinned(1)}, 0.1)
        books.arrive(A, books.depart([A])[A], "", 0.2)
    assert stage(books, UNSEEN_START_SECONDS - 0.1) is None
    assert stage(books, UNSEEN_START_SECONDS) is Stage.TELL
    books.arrive(A, books.depart([A])[A], "", UNSEEN_START_SECONDS)
    assert stage(books, 2 * UNSEEN_START_SECONDS) is None, "it does not run, as it seems"


def test_one_created_after_the_list_is_told_in_its_time_alone() -> None:
    books = Acknowledgements(CHECK, can_read_back=True)
    books.synchronize({}, {}, 0.0)
    books.create(A, pinned(0))
    books.told({A: pinned(1)}, 0.1)
    assert stage(books, UNSEEN_START_SECONDS) is None


def test_whoever_is_not_in_the_list_is_forgotten(books: Acknowledgements) -> None:
    books.synchronize({B: pinned(1)}, {B: 18}, 0.0)
    assert books.wanted(A) is None
    assert [*books.looks()] == [B]


def test_memory_nodes_count_where_the_kernel_shows_them(books: Acknowledgements) -> None:
    books.told({A: pinned(0)}, 0.0)
    elsewhere = Pinning(cpus=CpuSet.of(0), mems=NodeSet.of(1))
    assert isinstance(books.observe(A, elsewhere, 1.0), Mismatch)


def test_an_update_under_way_when_the_connection_ends_is_told_again(
    books: Acknowledgements,
) -> None:
    books.want({A: pinned(1)}, 0.0)
    books.depart([A])
    books.recall(5.0)
    assert stage(books, 5.0) is Stage.TELL


def test_a_doubt_has_the_kernel_looked_at_again_and_told_without_a_failure(
    books: Acknowledgements,
) -> None:
    books.doubt((A, B), 3.0)
    assert books.acknowledged(A) is None
    assert stage(books, 3.0) is Stage.CHECK
    assert books.observe(A, pinned(5), 3.0) is None, "another program did it: nothing failed"
    assert stage(books, 3.0) is Stage.TELL
    (telling,) = books.depart((A,)).values()
    assert books.arrive(A, telling, "", 3.1) is None
    assert books.acknowledged(A) == pinned(0)
    assert stage(books, 9.0) is None


def test_a_doubt_without_reason_ends_with_the_look(books: Acknowledgements) -> None:
    books.doubt((A,), 3.0)
    assert books.observe(A, pinned(0), 3.0) is None
    assert books.acknowledged(A) == pinned(0)
    assert stage(books, 9.0) is None


def test_a_doubt_has_what_failed_tried_at_once_and_leaves_what_is_under_way(
    books: Acknowledgements,
) -> None:
    books.want({A: pinned(1)}, 1.0)
    telling = books.depart((A,))[A]
    books.doubt((A,), 1.5)
    assert stage(books, 1.5) is None
    books.arrive(A, telling, "no", 2.0)
    assert stage(books, 2.0) is None
    books.doubt((A,), 2.0)
    assert stage(books, 2.0) is Stage.TELL


def test_a_look_tells_whether_a_running_container_is_settled(books: Acknowledgements) -> None:
    books.create(B, pinned(1))
    assert books.looks().keys() == {A}, "B does not run"
    assert books.looks()[A].is_settled
    books.want({A: pinned(1)}, 1.0)
    assert not books.looks()[A].is_settled
    telling = books.depart((A,))[A]
    books.arrive(A, telling, "the runtime is full", 1.0)
    look = books.looks()[A]
    assert (look.wanted, look.is_settled, look.problem) == (pinned(1), True, "the runtime is full")

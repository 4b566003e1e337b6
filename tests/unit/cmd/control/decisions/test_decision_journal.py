from msgspec import structs

from pinfold.cmd.control.decisions.decision_journal import REFUSALS_MAX, DecisionJournal
from pinfold.nri.dispatch.report import Connected, Decided, Released, Synchronized
from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.grant import Grant, PoolId, Refusal
from pinfold.policy.model.pinning import Change, Pinning


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def container(name: str) -> Container:
    return Container(id=ContainerId(name), name=name, pod=Pod(id=PodId(name), name=name))


def decided(name: str, event: str = "create", pool: int = 0, refused: str = "") -> Decided:
    grant = Grant(container_id=ContainerId(name), pool_id=PoolId(pool))
    return Decided(
        event=event,
        container=container(name),
        decision=Decision(
            container_id=ContainerId(name), result=Refusal(reason=refused) if refused else grant
        ),
    )


def test_time_is_that_of_the_last_decision() -> None:
    journal = DecisionJournal(Clock())
    journal(decided("a"))
    journal(decided("b"))
    journal(decided("a", "update"))
    assert (journal.at(ContainerId("a")), journal.at(ContainerId("b"))) == (3, 2)
    assert journal.at(ContainerId("c")) is None


def test_a_list_after_a_lost_connection_decides_nothing_anew_that_stays() -> None:
    journal = DecisionJournal(Clock())
    for one in ("stays", "moves", "gone"):
        journal(decided(one))
    journal(decided("stays", "synchronize"))
    journal(decided("moves", "synchronize", pool=1))
    journal(Synchronized(2, 0))
    assert [journal.at(ContainerId(one)) for one in ("stays", "moves", "gone")] == [1, 5, None]


def test_what_ended_long_ago_is_forgotten_and_what_runs_is_not() -> None:
    journal = DecisionJournal(Clock())
    journal(decided("runs"))
    for number in range(1000):
        journal(decided(f"{number}"))
        journal(Released(container(f"{number}"), ()))
    assert journal.at(ContainerId("runs")) == 1
    assert journal.at(ContainerId("0")) is None
    assert journal.at(ContainerId("999")) is not None


def test_the_last_refusals_are_kept_the_newest_first() -> None:
    journal = DecisionJournal(Clock())
    for number in range(REFUSALS_MAX + 1):
        journal(decided(f"{number}", refused=f"no room {number}"))
    assert [one.container.name for one in journal.refusals] == [
        str(number) for number in range(REFUSALS_MAX, 0, -1)
    ]
    assert journal.refusals[0].at == REFUSALS_MAX + 1


def test_refusals_are_counted_but_those_that_are_only_listed_again() -> None:
    journal = DecisionJournal(Clock())
    for event in ("create", "create", "synchronize", "update"):
        journal(decided("a", event, refused="full"))
    journal(decided("b"))
    assert journal.refused == 3


def test_the_runtime_is_the_one_that_was_connected_last() -> None:
    journal = DecisionJournal()
    assert journal.runtime == ""
    journal(Connected("containerd v2.1.0"))
    journal(Connected("cri-o 1.33.1"))
    assert journal.runtime == "cri-o 1.33.1"


def moving(name: str, *moved: str) -> Decided:
    plain = decided(name)
    changes = tuple(
        Change(container_id=ContainerId(other), before=Pinning(), after=Pinning())
        for other in moved
    )
    return structs.replace(plain, decision=structs.replace(plain.decision, changes=changes))


def test_the_names_of_those_who_moved_for_others_outlast_them() -> None:
    journal = DecisionJournal(Clock())
    for one in ("moved", "other"):
        journal(decided(one))
    journal(moving("own", "moved"))
    assert journal.gone_paths() == {}
    for one in ("moved", "other"):
        journal(Released(container(one), ()))
    assert journal.gone_paths() == {"moved": "default/moved/moved"}


def test_of_names_the_last_ones_are_kept() -> None:
    journal = DecisionJournal(Clock())
    names = [f"{number}" for number in range(2000)]
    journal(moving("own", *names))
    for one in names:
        journal(Released(container(one), ()))
    assert [*journal.gone_paths()] == names[-1024:]

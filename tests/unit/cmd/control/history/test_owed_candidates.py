"""Candidates of decisions: written once a container has stayed, and found with its decision."""

import json
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from pinfold.cmd.control.history.history_file import HISTORY_NAME, parse_line, read_history
from pinfold.cmd.control.history.history_keeper import HistoryKeeper
from pinfold.cmd.control.history.owed_candidates import OwedCandidates
from pinfold.cmd.control.history.saved_candidates import parse_candidates_line
from pinfold.cmd.control.history.saved_decision import SavedDecision
from pinfold.nri.dispatch.report import Released
from pinfold.policy.engine.snapshot import Snapshot
from tests.unit.nri.plugin.session_node import eventually

from ...daemon.paper_node import burstable, config, guaranteed
from .test_history_keeper import LOG, KeptNode

NOBODY_MAY_STAY = 3600.0


class StayingNode(KeptNode):
    """A node on paper where containers have stayed after so many seconds."""

    stay_seconds = NOBODY_MAY_STAY

    def _keeper(self) -> HistoryKeeper:
        return HistoryKeeper(
            self.state_dir,
            LOG,
            pause_seconds=0,
            clock=lambda: self.now,
            stay_seconds=self.stay_seconds,
        )

    def lines(self) -> list[bytes]:
        """What is written so far."""
        path = self.state_dir / HISTORY_NAME
        return path.read_bytes().splitlines() if path.exists() else []

    def decisions(self) -> list[SavedDecision]:
        """Decisions that are written so far, each with what its own line says."""
        return [one for one in map(parse_line, self.lines()) if one is not None]

    def tables(self) -> list[str]:
        """The containers of which candidates are written so far."""
        found = map(parse_candidates_line, self.lines())
        return [one.candidates_of for one in found if one is not None]

    def owe(self, owed: OwedCandidates, name: str, at: float) -> None:
        """Have the candidates of a container owed."""
        engine, container_id = self.daemon.engine, self.id_of(name)
        owed.note(engine.containers[container_id], at, engine.grants[container_id])

    def snapshot(self) -> Snapshot:
        """The policy as it is."""
        return self.daemon.front.owner.ask("look", lambda: self.daemon.engine.snapshot())


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[StayingNode]:
    node = StayingNode(tmp_path)
    node.start()
    yield node
    node.stop()


class LastingNode(StayingNode):
    """A node on paper where containers have stayed soon."""

    stay_seconds = 0.4


@pytest.fixture(name="lasting")
def fixture_lasting(tmp_path: Path) -> Generator[StayingNode]:
    node = LastingNode(tmp_path)
    node.start()
    yield node
    node.stop()


def test_a_decision_is_written_soon_and_what_it_chose_from_when_the_daemon_ends(
    node: StayingNode,
) -> None:
    node.run(guaranteed("db", 2000))
    assert eventually(lambda: [one.path for one in node.decisions()] == ["default/db/db"])
    (soon,) = node.decisions()
    assert (soon.decision is not None, soon.ranks, node.tables()) == (True, b"", [])
    was = node.client.explain("db")
    assert soon.decision is not None
    assert soon.decision.against == was.against
    node.restart()
    assert node.tables() == [soon.id]
    assert node.client.explain("db").candidates == was.candidates


def test_who_stays_has_its_candidates_written_though_nothing_happens(lasting: StayingNode) -> None:
    lasting.run(guaranteed("db", 2000))
    assert eventually(lambda: lasting.tables() != [])
    (kept,) = read_history(lasting.state_dir)
    document = kept.document()
    assert document is not None
    assert document.candidates == lasting.client.explain("db").candidates
    # Once: the end of the daemon adds nothing.
    lasting.restart()
    assert len(lasting.tables()) == 1


def test_candidates_wait_for_a_policy_that_is_busy_and_decisions_do_not(
    lasting: StayingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.cmd.control.history.history_keeper._BUSY_SECONDS", 0.01)
    lasting.run(guaranteed("db", 2000), guaranteed("web", 2000))
    db, web = (lasting.daemon.engine.containers[lasting.id_of(one)] for one in ("db", "web"))
    # From here on there is a file, which needs nobody to begin it.
    assert eventually(lambda: len(lasting.decisions()) == 2)
    is_free = threading.Event()
    busy = lasting.daemon.front.owner.submit("busy", lambda: is_free.wait(20))
    time.sleep(2 * lasting.stay_seconds)
    lasting.history(Released(db, ()))
    assert eventually(lambda: [one.event for one in lasting.decisions()][-1:] == ["release"])
    assert lasting.tables() == []
    assert lasting.history.fault() == ""
    is_free.set()
    assert busy.wait(20) is not None
    assert eventually(lambda: lasting.tables() == [web.shown_id])


def test_who_has_gone_by_then_leaves_a_line_without_candidates(node: StayingNode) -> None:
    node.run(guaranteed("db", 2000), burstable("web", 100))
    assert eventually(lambda: len(node.decisions()) == 2)
    node.remove("db")
    assert eventually(lambda: [one.event for one in node.decisions()][-1] == "release")
    web = node.decisions()[1]
    node.restart()
    assert node.tables() == [web.id]
    assert node.client.explain("db").candidates == ()


def test_one_that_stayed_and_has_ended_is_explained_with_its_candidates(
    lasting: StayingNode,
) -> None:
    lasting.run(guaranteed("db", 2000))
    was = lasting.client.explain("db").candidates
    assert eventually(lambda: lasting.tables() != [])
    lasting.remove("db")
    lasting.restart()
    assert was
    assert lasting.client.explain("db").candidates == was


def test_a_reload_that_changes_nothing_there_loses_no_candidates(node: StayingNode) -> None:
    node.run(guaranteed("db", 2000))
    was = node.client.explain("db").candidates
    assert eventually(lambda: len(node.decisions()) == 1)
    node.daemon.reconfigure(config(loadClasses=[{"name": "noisy", "level": "core"}]))
    node.restart()
    (kept,) = (one for one in read_history(node.state_dir) if one.event == "create")
    document = kept.document()
    assert document is not None
    assert was
    assert document.candidates == was


def test_a_refused_container_has_its_candidates_at_once(node: StayingNode) -> None:
    node.refusal(guaranteed("vast", 8000))
    assert eventually(lambda: node.decisions() != [])
    (refused,) = node.decisions()
    assert refused.ranks
    assert refused.document() is not None


def test_a_daemon_that_was_killed_left_all_but_the_candidates(node: StayingNode) -> None:
    node.run(guaranteed("db", 2000))
    assert eventually(lambda: node.decisions() != [])
    before = (node.state_dir / HISTORY_NAME).read_bytes()
    was = node.client.explain("db")
    node.restart()
    (node.state_dir / HISTORY_NAME).write_bytes(before)
    now = node.client.explain("db")
    assert (now.decided_by, now.against, now.cpus) == (was.decided_by, was.against, was.cpus)
    assert now.candidates == ()


def test_nothing_is_owed_of_a_decision_that_another_one_took_the_place_of(
    node: StayingNode,
) -> None:
    node.run(guaranteed("db", 1000))
    assert eventually(lambda: len(node.decisions()) == 1)
    node.resize("db", 2000, 2**30)
    assert eventually(lambda: len(node.decisions()) == 2)
    assert node.client.explain("db").candidates == (), "a resize looks at no pools"
    node.restart()
    assert node.tables() == []
    assert [one.event for one in read_history(node.state_dir)] == ["create", "update"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ranks": "AAAA"}, id="ranks that are not compressed"),
        pytest.param({"ranks": 5}, id="ranks that are a number"),
        pytest.param({"pools": None}, id="no names"),
        pytest.param({"at": "then"}, id="no time"),
    ],
)
def test_a_line_of_candidates_that_nobody_wrote_so_is_passed_over(
    node: StayingNode, change: dict[str, object]
) -> None:
    node.run(guaranteed("db", 2000))
    node.restart()
    (line,) = (one for one in node.lines() if parse_candidates_line(one) is not None)
    assert parse_line(line) is None, "a version that does not know it, neither"
    broken = json.dumps({**json.loads(line), **change}, separators=(",", ":")).encode()
    assert parse_candidates_line(broken) is None
    assert parse_candidates_line(line[: len(line) // 2]) is None


def test_candidates_are_owed_until_they_are_due_and_once(node: StayingNode) -> None:
    node.run(guaranteed("db", 1000), guaranteed("web", 1000), guaranteed("gone", 1000))
    now = 0.0
    owed = OwedCandidates(10.0, lambda: now)
    assert owed.seconds_left() is None
    node.owe(owed, "db", 1.0)
    now = 4.0
    for name in ("web", "gone"):
        node.owe(owed, name, 2.0)
    owed.forget(node.id_of("gone"))
    assert owed.seconds_left() == 6.0
    snapshot = node.snapshot()
    assert list(owed.settle(snapshot)) == []
    now = 11.0
    assert [one.at for one in owed.settle(snapshot)] == [1.0]
    assert owed.seconds_left() == 3.0
    assert [one.at for one in owed.settle(snapshot, is_last=True)] == [2.0]
    assert list(owed.settle(snapshot, is_last=True)) == []
    node.owe(owed, "db", 3.0)
    node.remove("db")
    assert list(owed.settle(node.snapshot(), is_last=True)) == []


def test_of_many_that_stayed_some_are_settled_at_a_time_and_in_the_end_all(
    node: StayingNode,
) -> None:
    names = [f"pod-{number}" for number in range(40)]
    node.run(*(burstable(name, 10) for name in names))
    now = 0.0
    owed = OwedCandidates(10.0, lambda: now)
    for number, name in enumerate(names):
        node.owe(owed, name, float(number))
    now = 20.0
    snapshot = node.snapshot()
    first = [one.at for one in owed.settle(snapshot)]
    assert first == list(range(len(first)))
    assert 0 < len(first) < len(names) // 2
    assert owed.seconds_left() == 0.0
    rest = [one.at for one in owed.settle(snapshot, is_last=True)]
    assert [*first, *rest] == list(range(len(names)))

"""Decisions that outlive the daemon: kept soon after they were made, and explained afterwards."""

import dataclasses
import errno
import json
import logging
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.cmd.control.control_client import ControlClient, ControlError
from pinfold.cmd.control.control_server import ControlServer
from pinfold.cmd.control.control_socket import ControlSocket
from pinfold.cmd.control.decisions.decision_journal import DecisionJournal
from pinfold.cmd.control.history.history_file import (
    BYTES_MAX,
    HISTORY_NAME,
    HistoryFile,
    parse_line,
    read_history,
)
from pinfold.cmd.control.history.history_keeper import HistoryKeeper
from pinfold.cmd.control.history.saved_decision import SavedDecision
from pinfold.nri.dispatch.report import Happening, Released
from pinfold.policy.engine.replacing.asked_move import AskedMove
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.move_purpose import MovePurpose
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.unit.nri.plugin.session_node import eventually
from tests.unit.policy.engine.ruled_pods import IGNORED

from ...daemon.paper_node import PaperNode, burstable, config, guaranteed

LOG = logging.getLogger("test_history_keeper")
MADE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:8G")
MACHINE = dataclasses.replace(MADE, spec="")
"""The same machine as if it had been read from its /sys."""


class KeptNode(PaperNode):
    """A node on paper whose daemon keeps its state and its decisions, and can be asked."""

    def __init__(self, folder: Path, machine: Machine = MACHINE) -> None:
        self.state_dir = folder
        self.now = 1_700_000_000.0
        self.bytes_max = BYTES_MAX
        self.history = self._keeper()
        self.journal = DecisionJournal(clock=lambda: self.now)
        super().__init__(machine, config(), folder=folder, reports=(self._report,))
        self.server: ControlServer | None = None

    @property
    def client(self) -> ControlClient:
        return ControlClient(self.state_dir / "control.sock")

    def start(self) -> None:
        super().start()
        self.history.start(self.daemon.front)
        self.server = ControlServer(
            self.daemon,
            self.journal,
            ControlSocket(self.state_dir / "control.sock"),
            "embedded",
            LOG,
            self.history,
        )
        self.server.start()

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
        self.history.stop()
        super().stop()

    def restart(self, *, without: str = "") -> None:
        """Another daemon; `without`: a container or a file that is gone by then."""
        self.stop()
        self.now += 1000
        if (self.state_dir / without).is_file():
            (self.state_dir / without).unlink()
        elif without:
            self.runtime.remove_pod(self.runtime.containers[self.id_of(without)].pod_sandbox_id)
        self.history = self._keeper()
        self.journal = DecisionJournal(clock=lambda: self.now)
        self.daemon = self._daemon()
        self.start()

    def kept(self) -> list[SavedDecision]:
        """All that is written once the daemon has ended."""
        return list(read_history(self.state_dir))

    def _keeper(self) -> HistoryKeeper:
        return HistoryKeeper(
            self.state_dir, LOG, pause_seconds=0, clock=lambda: self.now, bytes_max=self.bytes_max
        )

    def _report(self, happening: Happening) -> None:
        self.history(happening)
        self.journal(happening)


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[KeptNode]:
    node = KeptNode(tmp_path)
    node.start()
    yield node
    node.stop()


def test_why_a_container_is_where_it_is_outlives_the_daemon(node: KeptNode) -> None:
    node.run(guaranteed("db", 2000), burstable("side", 100), guaranteed("web", 1500))
    before = {name: node.client.explain(name) for name in ("db", "side", "web")}
    assert all(one.candidates for one in before.values())
    node.restart()
    for name, was in before.items():
        now = node.client.explain(name)
        assert (now.at, now.decided_by, now.against) == (
            "2023-11-14T22:13:20Z",
            was.decided_by,
            was.against,
        )
        assert (now.candidates, now.moved) == (was.candidates, was.moved)
        assert (now.pool, now.cpus, now.mems) == (was.pool, was.cpus, was.mems)


def test_containers_that_move_together_are_written_together(node: KeptNode) -> None:
    names = [f"side{number}" for number in range(6)]
    node.run(*(burstable(name, 100) for name in names), guaranteed("db", 2000))
    was = node.client.explain("db").moved
    assert len(was) > 1
    node.restart()
    last = node.kept()[-1]
    assert [one.path for one in node.kept()][-1] == "default/db/db"
    assert last.decision is not None
    assert not last.decision.moved
    assert len(last.moves) == len({(one.from_.cpus, one.to.cpus) for one in was})
    document = last.document()
    assert document is not None
    assert document.moved == was


def test_whom_a_decision_of_an_older_version_moved_is_known() -> None:
    pins = '"from":{"cpus":"0-3","mems":"0"},"to":{"cpus":"0-1","mems":"0"}'
    moved = f'[{{"container":"default/a/a",{pins}}}]'
    decision = f'{{"result":"grant","moved":{moved}}}'
    line = f'{{"at":1,"event":"create","id":"b","path":"b","decision":{decision}}}'
    found = parse_line(line.encode())
    assert found is not None
    document = found.document()
    assert document is not None
    assert [(one.container, one.to.cpus) for one in document.moved] == [("default/a/a", "0-1")]


def test_a_rule_that_holds_since_a_decision_is_not_explained_as_unmet_after_a_restart(
    node: KeptNode,
) -> None:
    terms = [{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "socket"}]
    rules = json.dumps({"podAffinity": {IGNORED: terms}})
    web = burstable("web", 100)
    node.run(replace(web, annotations={"affinity.pinfold.dev/pod": rules}))
    assert node.client.explain("web").request["unmet"]
    node.run(replace(guaranteed("db", 1000), labels={"app": "db"}))
    assert node.client.explain("web").request["unmet"] == []
    node.restart()
    assert node.client.explain("web").request["unmet"] == []


def test_two_restarts_later_it_is_still_known(node: KeptNode) -> None:
    node.run(guaranteed("db", 2000))
    was = node.client.explain("db")
    node.restart()
    node.restart()
    assert node.client.explain("db").candidates == was.candidates
    assert [one.event for one in node.kept()] == ["create"]


def test_a_refused_container_is_explained_after_a_restart(node: KeptNode) -> None:
    node.refusal(guaranteed("vast", 8000))
    was = node.client.explain("vast")
    node.restart()
    now = node.client.explain("vast")
    assert (now.result, now.decided_by, now.candidates) == (
        "refusal",
        was.decided_by,
        was.candidates,
    )
    assert now.candidates


def test_a_container_that_ended_is_explained(node: KeptNode) -> None:
    node.run(guaranteed("db", 2000))
    was = node.client.explain("db")
    node.restart()
    node.remove("db")
    node.restart()
    now = node.client.explain("db")
    assert (now.result, now.pool, now.cpus) == ("grant", was.pool, was.cpus)
    assert (was.ended, now.ended) == (False, True)
    with pytest.raises(ControlError, match="container: 'other' is not here"):
        node.client.explain("other")


def test_an_instance_before_the_last_one_is_explained_by_its_id(node: KeptNode) -> None:
    node.run(guaranteed("db", 2000))
    (first,) = (one.shown_id for one in node.daemon.engine.containers.values())
    node.remove("db")
    node.restart()
    # The runtime on paper gives all instances of one name one id, as others do not.
    file = node.state_dir / HISTORY_NAME
    line = next(one for one in file.read_text().splitlines() if '"event":"create"' in one)
    with file.open("a") as written:
        written.write(line.replace(first, "e" * 64) + "\n")
    for name in ("db", "e" * 12, "e" * 64, first, first[:12]):
        assert node.client.explain(name).container == "default/db/db", name
    with pytest.raises(ControlError, match="is not here"):
        node.client.explain("f" * 12)


def test_a_container_that_is_elsewhere_by_now_has_the_reason_of_now(node: KeptNode) -> None:
    node.run(burstable("side", 100))
    pool = node.client.explain("side").pool
    node.restart()
    other = "socket #0" if pool == "socket #1" else "socket #1"
    assert node.client.move(node.id_of("side"), pool or "", other).moved
    assert node.client.explain("side").decided_by == "rebalance"


def test_events_are_written_in_their_order_and_once(node: KeptNode) -> None:
    node.run(guaranteed("db", 1000))
    node.resize("db", 2000, 2**30)
    node.restart()
    node.remove("db")
    node.restart()
    assert [(one.event, one.path) for one in node.kept()] == [
        ("create", "default/db/db"),
        ("update", "default/db/db"),
        ("release", "default/db/db"),
    ]


def test_a_connection_that_broke_is_no_decision_about_those_who_stay(node: KeptNode) -> None:
    node.run(guaranteed("db", 2000), burstable("side", 100), guaranteed("web", 1500))
    node.run(burstable("last", 100))
    node.lose_runtime()
    node.remove("side")
    node.find_runtime()
    node.restart()
    assert [(one.event, one.path) for one in node.kept()] == [
        *(("create", f"default/{name}/{name}") for name in ("db", "side", "web", "last")),
        ("release", "default/side/side"),
    ]


def test_a_move_that_was_taken_back_is_written_with_where_the_container_is(node: KeptNode) -> None:
    node.run(guaranteed("web"))
    daemon, web, home = node.daemon, node.id_of("web"), node.cpus("web")
    here = daemon.engine.grants[web].pool_id
    there = next(one.id for one in daemon.engine.tree.pools if not one.children and one.id != here)
    asked = AskedMove(there, MovePurpose.WISHES)
    node.runtime.broken_ids.add(web)
    daemon.front.owner.ask("note", lambda: daemon.refused_moves.note(web, daemon.engine))

    def move() -> Grant:
        daemon.front.events.moves.move(web, asked)
        # In the next turn it may be taken back.
        return daemon.engine.grants[web]

    assert str(daemon.front.owner.ask("move", move).exclusive) != home
    assert eventually((node.state_dir / HISTORY_NAME).exists)
    assert eventually(lambda: [one.event for one in node.kept()][-2:] == ["move", "return"])
    last = node.kept()[-1].decision
    assert last is not None
    assert last.cpus == home
    node.remove("web")
    node.restart()
    assert node.client.explain("web").cpus == home


def test_a_container_that_ended_while_nobody_looked_is_written_as_ended(node: KeptNode) -> None:
    node.run(guaranteed("db", 1000), guaranteed("web", 1000))
    node.restart(without="db")
    node.restart()
    assert [(one.event, one.path) for one in node.kept()] == [
        ("create", "default/db/db"),
        ("create", "default/web/web"),
        ("release", "default/db/db"),
    ]


def test_every_part_of_the_file_begins_with_what_ran_then(node: KeptNode) -> None:
    node.bytes_max = 6_000
    node.run(burstable("first", 100))
    node.restart()
    for number in range(8):
        node.run(guaranteed(f"pod-{number}", 1000))
        node.remove(f"pod-{number}")
        # Each is written for itself.
        node.restart()
    kept = node.kept()
    assert kept[0].path == "default/first/first"
    assert kept[0].event in {"present", "synchronize"}
    container = kept[0].container()
    assert container is not None
    # As it ran then: another one had some of them.
    assert container.cpus
    assert {str(container.mems)} == {node.mems("first")}
    assert node.client.explain("first").result == "grant"


def test_what_happens_while_a_busy_policy_cannot_begin_the_next_part_is_written_afterwards(
    node: KeptNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.bytes_max = 2
    node.run(guaranteed("first", 1000), guaranteed("second", 1000))
    node.restart()
    ended = [node.daemon.engine.containers[node.id_of(one)] for one in ("first", "second")]
    monkeypatch.setattr("pinfold.cmd.control.history.history_keeper._BUSY_SECONDS", 0.01)
    is_free = threading.Event()
    node.daemon.front.owner.submit("busy", lambda: is_free.wait(20))
    node.history(Released(ended[0], ()))
    assert eventually(lambda: "busy" in node.history.fault())
    is_free.set()
    node.history(Released(ended[1], ()))

    def released() -> list[str]:
        return [one.path for one in node.kept() if one.event == "release"]

    assert eventually(lambda: released() == ["default/first/first", "default/second/second"])
    assert node.history.fault() == ""


def test_a_history_that_was_lost_begins_anew_with_what_runs(node: KeptNode) -> None:
    node.run(burstable("first", 100))
    node.restart(without="decisions.jsonl")
    node.restart()
    assert [(one.event, one.path) for one in node.kept()] == [
        ("synchronize", "default/first/first")
    ]


def test_more_than_is_written_at_once_is_written_whole(node: KeptNode) -> None:
    names = [f"pod-{number}" for number in range(40)]
    node.run(*(burstable(name, 10) for name in names))
    node.restart(without="decisions.jsonl")
    node.restart()
    kept = [(one.event, one.path) for one in node.kept()]
    assert sorted(kept) == sorted(("synchronize", f"default/{one}/{one}") for one in names)


def test_what_could_not_be_written_is_in_the_next_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = KeptNode(tmp_path)
    # Each part is full at once.
    node.history = HistoryKeeper(tmp_path, LOG, pause_seconds=0, bytes_max=2)
    node.start()
    node.run(burstable("first", 100))
    while not (tmp_path / HISTORY_NAME).exists():
        time.sleep(0.001)
    has_failed = threading.Event()

    def fail(*_: object) -> None:
        has_failed.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(HistoryFile, "append", fail)
        node.run(burstable("second", 100))
        assert has_failed.wait(10.0)
    node.run(burstable("third", 100))
    node.stop()
    kept = [(one.event, one.path) for one in node.kept()]
    assert ("present", "default/second/second") in kept


def test_a_fault_is_told_until_the_file_can_be_written_though_nothing_is_decided(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    node = KeptNode(folder)
    node.history = HistoryKeeper(folder, LOG, pause_seconds=0, again_seconds=0.01)
    node.start()
    node.run(burstable("first", 100))
    # Else it may look at what is there only once that is a folder, and puts it aside.
    assert eventually((folder / HISTORY_NAME).exists)
    assert node.history.fault() == ""
    (folder / HISTORY_NAME).unlink()
    (folder / HISTORY_NAME).mkdir()
    node.run(burstable("lost", 100))
    assert eventually(lambda: bool(node.history.fault()))
    assert node.history.fault() == f"{folder}: Is a directory — decisions are lost"
    (folder / HISTORY_NAME).rmdir()
    assert eventually(lambda: not node.history.fault())
    node.run(burstable("kept", 100))
    node.stop()
    assert [one.path for one in node.kept()] == ["default/kept/kept"]
    told = [one.getMessage() for one in caplog.records if one.name == LOG.name]
    assert told == [f"{folder}: Is a directory — decisions are lost"]

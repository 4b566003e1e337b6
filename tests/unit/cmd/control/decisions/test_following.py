"""Clients that follow are told what is decided from then on, as it is decided."""

import contextlib
import json
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinfold.cmd.control.control_client import ControlClient, ControlError
from pinfold.cmd.control.decisions.decision_feed import WAITING_MAX, DecisionFeed, DecisionFollower
from pinfold.cmd.control.documents import FollowedDocument, PinDocument
from pinfold.cmd.control.service_handlers import STREAMS_MAX
from pinfold.cmd.pinfold import main
from pinfold.nri.dispatch.report import Released
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId

from ...daemon.paper_node import burstable, guaranteed
from ..asked_node import AskedNode

SECONDS = 60.0


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    node = AskedNode(tmp_path)
    node.start()
    yield node
    node.stop()


@contextlib.contextmanager
def following(node: AskedNode) -> Generator[Iterator[FollowedDocument]]:
    """What a client is told, from a moment on at which it misses nothing."""
    told = ControlClient(node.path).follow()
    assert next(told).event == ""
    with contextlib.closing(told):  # type: ignore[type-var]  # it is a generator, whose end it is
        yield (one for one in told if one.event)


def test_who_follows_is_told_of_places_of_refusals_and_of_who_moves(node: AskedNode) -> None:
    node.run(burstable("side", 100))
    with following(node) as told:
        node.run(guaranteed("db", 3000))
        placed = next(told)
        node.refusal(guaranteed("vast", 9000))
        refused = next(told)
    assert (placed.event, placed.container, placed.result) == ("create", "default/db/db", "grant")
    assert placed.cpus == node.cpus("db")
    assert placed.decided_by
    for one in placed.moved:
        assert one.container == "default/side/side"
        assert isinstance(one.to, PinDocument)
    assert refused.result == "refusal"
    assert "no pool has room" in refused.decided_by


def test_several_follow_at_once_and_places_are_given_back(node: AskedNode) -> None:
    for number in range(2):
        with following(node) as one, following(node) as other:
            node.run(burstable(f"side-{number}", 100))
            assert next(one) == next(other)


def test_one_more_than_there_are_places_is_told_so(node: AskedNode) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS_MAX):
            stack.enter_context(following(node))
        with pytest.raises(ControlError, match="streams are open — end one of them"):
            next(ControlClient(node.path).follow())


def test_a_follower_that_does_not_read_loses_what_it_has_no_room_for() -> None:
    feed = DecisionFeed()
    pod = Pod(id=PodId("p"), name="p")
    gone = Released(Container(id=ContainerId("c"), name="c", pod=pod), ())
    with feed.following() as follower:
        for at in range(WAITING_MAX + 3):
            feed.give(at, gone)
        assert follower.dropped == 3
        first = follower.take(0)
        assert first is not None
        assert first.at == 0
    feed.give(0, gone)
    assert follower.dropped == 3


def test_the_command_shows_a_line_for_each_until_the_daemon_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = AskedNode(tmp_path)
    node.start()
    following, is_followed = node.journal.feed.following, threading.Event()

    @contextlib.contextmanager
    def followed() -> Generator[DecisionFollower]:
        with following() as follower:
            is_followed.set()
            yield follower

    monkeypatch.setattr(node.journal.feed, "following", followed)

    def come_and_end() -> None:
        is_followed.wait(SECONDS)
        # A line needs a moment before the end.
        for number in range(20):
            node.run(burstable(f"side-{number}", 100))
            time.sleep(0.1)
        node.stop()

    thread = threading.Thread(target=come_and_end)
    thread.start()
    run = CliRunner().invoke(main, ["follow", f"--control={node.path}", "-o", "json"])
    thread.join()
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    assert lines
    first = json.loads(lines[0])
    assert first["event"] == "create"
    assert first["container"].startswith("default/side-")


def test_ids_of_containers_are_told(node: AskedNode) -> None:
    with following(node) as told:
        node.run(burstable("side", 100))
        assert ContainerId(next(told).id) == node.id_of("side")

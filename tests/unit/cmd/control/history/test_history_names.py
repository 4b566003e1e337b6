"""Decisions about containers that were placed before the runtime gave them their ids."""

import logging
from collections.abc import Iterable
from pathlib import Path

import grpc
import pytest

from pinfold.cmd.control.history.history_file import read_history
from pinfold.cmd.control.history.history_keeper import HistoryKeeper
from pinfold.cmd.control.history.saved_decision import SavedDecision
from pinfold.nri.dispatch.report import Decided, Happening, Identified
from pinfold.policy.engine.engine import Engine
from tests.unit.nri.cri.proxied_node import CONFIG, MACHINE, eventually
from tests.unit.nri.cri.wires import SECONDS, CriWire

from ...daemon.paper_node import guaranteed

LOG = logging.getLogger("test_history_names")


class KeptProxy:
    """A node behind the proxy, and the history of what it decided."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wire = CriWire(None, folder)
        self.begin()

    def begin(self) -> None:
        self.wire.begin(Engine(MACHINE, CONFIG), {})
        self.wire.happenings.clear()

    def end(self) -> list[SavedDecision]:
        """The proxy ends; all that is written by then."""
        front = self.wire.front
        assert front is not None
        assert front.settle(SECONDS)
        self.keep(self.wire.happenings)
        self.wire.end()
        return list(read_history(self.folder))

    def keep(self, happenings: Iterable[Happening]) -> None:
        front = self.wire.front
        assert front is not None
        keeper = HistoryKeeper(self.folder, LOG, pause_seconds=0)
        keeper.start(front)
        for one in happenings:
            keeper(one)
        keeper.stop()

    def ids(self) -> list[str]:
        return list(self.wire.runtime.containers)


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Iterable[KeptProxy]:
    node = KeptProxy(tmp_path)
    yield node
    node.wire.close()


def test_a_decision_is_kept_under_the_id_that_the_runtime_gave_afterwards(
    node: KeptProxy,
) -> None:
    node.wire.kubelet.start_pods([guaranteed("db", 2000)])
    (created,) = node.ids()
    (kept,) = node.end()
    container = kept.container()
    assert container is not None
    assert (kept.id, container.id, kept.event) == (created, created, "create")
    assert kept.ranks, "what it was held against has that id, too"
    node.begin()
    node.end()
    found = HistoryKeeper(node.folder, LOG).last_of(created)
    assert found == kept, "a restart decides nothing, and ends nobody"


def test_an_end_is_kept_under_that_id_too(node: KeptProxy) -> None:
    node.wire.kubelet.start_pods([guaranteed("db", 2000)])
    (created,) = node.ids()
    node.wire.kubelet.remove(created)
    assert [(one.event, one.id) for one in node.end()] == [
        ("create", created),
        ("release", created),
    ]


def test_a_container_that_never_got_an_id_is_kept_under_its_names(node: KeptProxy) -> None:
    kubelet, pod = node.wire.kubelet, guaranteed("big", 64_000)
    pod_id = kubelet.run_pod(pod)
    with pytest.raises(grpc.RpcError):
        kubelet.create(pod_id, pod, pod.containers[0])
    assert {one.id for one in node.end()} == {f"{pod_id}/big/0"}


def test_a_creation_under_way_at_the_end_is_kept_under_its_names(node: KeptProxy) -> None:
    node.wire.kubelet.start_pods([guaranteed("db", 2000)])
    front = node.wire.front
    assert front is not None
    assert front.settle(SECONDS)
    node.keep(one for one in node.wire.happenings if not isinstance(one, Identified))
    (kept,) = read_history(node.folder)
    (decided,) = [one for one in node.wire.happenings if isinstance(one, Decided)]
    assert kept.id == decided.container.id != node.ids()[0]
    assert kept.ranks, "what it was held against is told under them, too"


def test_one_that_waits_for_its_id_is_not_present_as_if_it_had_been_told_of_before(
    node: KeptProxy,
) -> None:
    node.wire.loopback.kubelet.start_pods([guaranteed("db", 2000)])
    front = node.wire.front
    assert front is not None
    assert front.settle(SECONDS)
    (decided,) = [one for one in node.wire.happenings if isinstance(one, Decided)]
    keeper = HistoryKeeper(node.folder, LOG, pause_seconds=0)
    keeper.start(front)
    keeper(decided)
    # Taken by itself, before there is an end.
    assert eventually(lambda: not keeper._waiting)  # pyright: ignore[reportPrivateUsage]
    keeper.stop()
    assert [one.event for one in read_history(node.folder)] == ["create"]

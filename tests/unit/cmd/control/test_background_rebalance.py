"""The background rebalance: what it moves, and what it leaves alone."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pinfold.cmd.control.background_rebalance import BackgroundRebalance
from pinfold.nri.dispatch.report import Happening, Updated
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from tests.unit.cmd.daemon.paper_node import LOG, PaperNode, burstable, config, fan, guaranteed

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:8G")
HOUR = 3600.0


FOUR = machine_from_spec("socket:4 numa:1 core:4 thread:1 mem:8G")


class Node:
    """Two friends far from each other, and a clock that is set by hand."""

    def __init__(self, machine: Machine = MACHINE, **rebalance: object) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], object] = list
        """What happens once the runtime has the first move."""
        self.paper = PaperNode(machine, config(rebalance=rebalance), reports=(self._report,))
        self.paper.start()
        self.rebalance = BackgroundRebalance(self.paper.daemon, LOG, lambda: self.now)

    def _report(self, happening: Happening) -> None:
        if isinstance(happening, Updated):
            meanwhile, self.meanwhile = self.meanwhile, list
            meanwhile()

    def run_pairs(self) -> None:
        """Start four containers and four that wish for them, three of which have yet to go there.

        For a machine of four sockets.
        """
        for number in range(4):
            self.paper.run(fan(f"web{number}", f"db{number}"))
        for number in (1, 2, 3, 0):
            self.paper.run(burstable(f"db{number}", 500))

    def are_together(self) -> int:
        """How many of those four pairs are in one socket each."""
        grant = self.paper.grant
        return sum(grant(f"web{one}").pool_id == grant(f"db{one}").pool_id for one in range(4))

    def run_friends(self, fan_name: str = "web", friend: str = "db", **said: str) -> None:
        db = burstable(friend, 500)
        keys = {f"{key}.pinfold.dev/pod": value for key, value in said.items()}
        texts = {**db.annotations, **keys}
        self.paper.run(fan(fan_name, friend), replace(db, annotations=texts))

    def look(self, fan_name: str = "web", friend: str = "db") -> bool:
        """Whether they are together after a look."""
        self.rebalance.look()
        self.paper.settle()
        return self.paper.grant(fan_name).pool_id == self.paper.grant(friend).pool_id


def run_ruled(paper: PaperNode, name: str, kind: str, about: str) -> None:
    """Start a pod with a required rule at sockets about the pods of another name."""
    pod = burstable(name, 500)
    one = {"topologyKey": "socket", "labelSelector": {"matchLabels": {"app": about}}}
    rule = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [one]}}
    texts = {**pod.annotations, "affinity.pinfold.dev/pod": json.dumps(rule)}
    paper.run(replace(pod, labels={"app": name}, annotations=texts))


@pytest.fixture(name="node_with")
def fixture_node_with() -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def made(machine: Machine = MACHINE, **rebalance: object) -> Node:
        nodes.append(Node(machine, **rebalance))
        return nodes[-1]

    yield made
    for one in nodes:
        one.paper.stop()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "event=rebalance" in one.getMessage()]


def test_nobody_is_moved_unless_it_is_configured(node_with: Callable[..., Node]) -> None:
    node = node_with()
    node.run_friends()
    assert not node.look()


def test_friends_come_together_and_the_kernel_has_it(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = node_with(movesPerHour=1)
    node.run_friends()
    assert node.look()
    assert node.paper.cpus("db") == node.paper.cpus("web")
    assert lines(caplog) == ["event=rebalance moves=1 planned=1"]
    node.now += HOUR
    node.look()
    node.look()
    assert len(lines(caplog)) == 1, "what is as good as it can be is left alone"


def test_no_more_are_moved_in_an_hour_than_the_budget_allows(
    node_with: Callable[..., Node],
) -> None:
    node = node_with(movesPerHour=1)
    node.run_friends()
    assert node.look()
    node.paper.remove("db")
    node.paper.remove("web")
    node.run_friends("shop", "store")
    assert not node.look("shop", "store")
    node.now += HOUR
    assert node.look("shop", "store")


def test_some_who_go_together_wait_until_the_budget_is_for_all_of_them(
    node_with: Callable[..., Node],
) -> None:
    node = node_with(movesPerHour=2)
    node.run_friends()
    assert node.look(), "one move is spent"
    node.paper.remove("db")
    node.paper.remove("web")
    run_ruled(node.paper, "main", "podAntiAffinity", "wolf")
    run_ruled(node.paper, "side", "podAffinity", "main")
    here = node.paper.grant("main").pool_id
    assert node.paper.grant("side").pool_id == here
    pool = node.paper.daemon.engine.tree.pools[here].name
    keys = {"pool-name": pool, "move": "never", "on-unsatisfiable": "fail"}
    wolf = burstable("wolf", 500)
    told = {f"{key}.pinfold.dev/pod": value for key, value in keys.items()}
    node.paper.run(replace(wolf, labels={"app": "wolf"}, annotations={**wolf.annotations, **told}))
    assert node.paper.grant("wolf").pool_id == here
    assert node.look("main", "side")
    assert node.paper.grant("main").pool_id == here, "the other one is not enough for two"
    node.now += HOUR
    assert node.look("main", "side")
    assert node.paper.grant("main").pool_id != here


def test_who_refuses_to_be_moved_is_left_alone(node_with: Callable[..., Node]) -> None:
    node = node_with(movesPerHour=9)
    node.run_friends(move="never")
    home = node.paper.grant("db")
    node.look()
    assert node.paper.grant("db") == home


def test_a_move_that_the_runtime_does_not_make_is_told(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = node_with(movesPerHour=9)
    node.run_friends()
    node.paper.runtime.broken_ids.update(map(node.paper.id_of, ("db", "web")))
    node.rebalance.look()
    (line,) = lines(caplog)
    assert "moves=0 planned=1 stopped=" in line


def test_a_move_that_the_runtime_does_not_make_counts_in_the_budget(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """It is told again until the runtime has it, and the next look would move another one."""
    caplog.set_level(logging.INFO)
    node = node_with(movesPerHour=1)
    node.run_friends()
    node.paper.runtime.broken_ids.update(map(node.paper.id_of, ("db", "web")))
    node.rebalance.look()
    node.paper.remove("db")
    node.paper.remove("web")
    node.run_friends("shop", "store")
    assert not node.look("shop", "store")
    assert len(lines(caplog)) == 1
    node.now += HOUR
    assert node.look("shop", "store")


def test_a_policy_that_is_busy_between_two_moves_stops_the_rest_and_that_is_told(
    node_with: Callable[..., Node],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("pinfold.cmd.control.background_rebalance._POLICY_SECONDS", 0.05)
    node = node_with(FOUR, movesPerHour=9)
    node.run_pairs()
    assert node.are_together() == 1
    gate = threading.Event()
    owner = node.paper.daemon.front.owner
    node.meanwhile = lambda: owner.submit("busy", lambda: gate.wait(20))
    node.rebalance.look()
    gate.set()
    (line,) = lines(caplog)
    assert "moves=1 planned=3 stopped=" in line
    assert "the policy is busy for more than 0.05 s" in line
    node.paper.settle()
    assert node.are_together() == 2


def test_a_reload_that_switches_it_off_stops_the_moves_that_are_left(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = node_with(FOUR, movesPerHour=9)
    node.run_pairs()
    node.meanwhile = lambda: node.paper.daemon.reconfigure(config())
    node.rebalance.look()
    node.paper.settle()
    assert lines(caplog) == [
        'event=rebalance moves=1 planned=3 stopped="the configuration is another by now"'
    ]
    assert node.are_together() == 2


def test_a_reload_has_it_look_again_at_what_no_move_was_worth(
    node_with: Callable[..., Node],
) -> None:
    node = node_with(movesPerHour=1)
    near, one = fan("web", "db"), guaranteed("web", 1000)
    node.paper.run(replace(near, qos=one.qos, containers=one.containers), guaranteed("db", 1000))
    assert not node.look()
    more = {"movesPerHour": 1, "moveExclusive": True}
    node.paper.daemon.reconfigure(config(rebalance=more))
    assert node.look()


def test_nobody_is_moved_while_the_runtime_is_away(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody would be told, and the runtime's list of what runs undoes it."""
    caplog.set_level(logging.INFO)
    node = node_with(FOUR, movesPerHour=9)
    node.run_pairs()
    node.meanwhile = node.paper.lose_runtime
    node.rebalance.look()
    (line,) = lines(caplog)
    assert 'moves=1 planned=3 stopped="default/db2/db2: the runtime is not connected' in line
    node.rebalance.look()
    assert len(lines(caplog)) == 1
    node.paper.find_runtime()
    assert node.are_together() == 2
    node.rebalance.look()
    assert node.are_together() == 4


def test_a_daemon_that_is_about_to_end_moves_nobody_more(
    node_with: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = node_with(FOUR, movesPerHour=9)
    node.run_pairs()
    node.meanwhile = node.paper.daemon.begin_stop
    node.rebalance.look()
    (line,) = lines(caplog)
    assert 'moves=1 planned=3 stopped="default/db2/db2: the daemon is about to end"' in line
    assert node.are_together() == 2

"""`pinfold rebalance` asked of a running daemon: the plan, and the moves one by one."""

import contextlib
import json
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from pinfold.cmd.commands.saved_node import saved_engine
from pinfold.cmd.control.container_names import ControlRequestError
from pinfold.cmd.control.control_client import ControlError
from pinfold.cmd.control.documents import MoveDocument
from pinfold.cmd.control.move_step import read_promised
from pinfold.cmd.control.plan_document import move_documents
from pinfold.cmd.pinfold import main
from pinfold.nri.dispatch.report import Unapplied
from pinfold.policy.engine.rebalance.plan import RebalanceMove
from pinfold.policy.engine.rebalance.plan import rebalance as planned
from pinfold.policy.engine.rebalance.promise import NEEDED_MAX, needed_moves
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

from ...nri.plugin.session_node import eventually
from ..control.asked_node import MACHINE, AskedNode
from ..daemon.paper_node import burstable, fan, guaranteed

SPEC = "socket:2 numa:1 core:4 thread:1 mem:8G"


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    """Two friends far from each other: who is wished for came later, and knows of no wish."""
    node = AskedNode(tmp_path)
    node.start()
    node.run(fan("web", "db"), burstable("db", 500))
    yield node
    node.stop()


def rebalance(node: AskedNode, *arguments: str) -> Result:
    return CliRunner().invoke(
        main, ["rebalance", f"--control={node.path}", f"--machine={SPEC}", *arguments]
    )


def pools(node: AskedNode) -> dict[str, str]:
    return {one.container.split("/")[2]: one.pool for one in node.client.status().containers}


def test_plan_of_the_running_daemon_moves_nothing(node: AskedNode) -> None:
    run = rebalance(node)
    assert run.exit_code == 0, run.output
    lines = [re.split(r"  +", line.strip()) for line in run.output.splitlines()]
    assert lines == [
        ["satisfied weight: 2.81, 5 after 1 move (nothing to migrate, 1 cpuset to change)"],
        ["container", "from", "to", "gain", "memory to migrate"],
        ["default/db/db", "socket #0, cpus 1-3", "socket #1, cpus 4-7", "+2.19", "-"],
    ]
    assert pools(node) == {"web": "socket #1", "db": "socket #0"}


def test_moves_are_made_by_the_daemon_and_the_kernel_has_them(node: AskedNode) -> None:
    run = rebalance(node, "--apply", "-o", "json")
    assert run.exit_code == 0, run.output
    found = json.loads(run.output)
    assert list(found) == ["applied", "moves", "score", "score_after", "stopped"]
    assert (found["applied"], found["stopped"], len(found["moves"])) == (1, None, 1)
    assert pools(node) == {"web": "socket #1", "db": "socket #1"}
    assert (node.cpus("db"), node.mems("db")) == ("4-7", "0-1")
    assert node.client.explain("db").decided_by == "rebalance"
    node.daemon.front.owner.ask("check", node.daemon.engine.check)
    run = rebalance(node, "--apply")
    assert run.output == "satisfied weight: 5; no move is worth it\nmade: 0 moves of 0\n"


def test_a_move_that_gains_nothing_says_what_it_is_for_before_and_after(node: AskedNode) -> None:
    node.remove("web")
    node.run(guaranteed("calm", 500))
    here = pools(node)["calm"]
    assert node.client.move(node.id_of("calm"), here, "root").moved
    (move,) = json.loads(rebalance(node, "-o", "json").output)["moves"]
    assert (move["gain"], move["purpose"]) == (0, "one_numa_node")
    run = rebalance(node, "--apply")
    assert run.exit_code == 0, run.output
    assert "  default/calm/calm goes back to one NUMA node\n" in run.output
    explained = CliRunner().invoke(main, ["explain", "calm", f"--control={node.path}"]).output
    assert "because: one NUMA node has room for all of it" in explained


def test_a_container_that_is_elsewhere_by_now_is_left_alone(node: AskedNode) -> None:
    found = node.client.move(node.id_of("db"), "socket #1", "root")
    assert (found.moved, found.reason, found.pool) == (
        False,
        "it is in socket #0 by now",
        "socket #0",
    )
    assert node.cpus("db") == "1-3"


def test_a_move_for_which_there_is_no_room_is_not_made(node: AskedNode) -> None:
    node.run(guaranteed("fat", 2000))
    found = node.client.move(node.id_of("web"), "socket #1", "socket #0")
    assert not found.moved
    assert found.reason is not None
    assert "shared CPU" in found.reason
    assert pools(node)["web"] == "socket #1"


def test_a_required_rule_holds_its_containers(node: AskedNode) -> None:
    rule = (
        '{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey":'
        ' "socket", "labelSelector": {"matchLabels": {"app": "none"}}}]}}'
    )
    pod = replace(burstable("calm", 100), annotations={"affinity.pinfold.dev/pod": rule})
    node.run(pod)
    pool = pools(node)["calm"]
    found = node.client.move(node.id_of("calm"), pool, "root")
    assert (found.moved, found.reason) == (False, "a required rule says where it is")


def crowded(node: AskedNode) -> str:
    """The pod of three that was alone in a socket, once it is gone: the others share one still.

    All must be apart, at one of two sockets.
    """
    rule = (
        '{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey":'
        ' "socket", "labelSelector": {"matchLabels": {"app": "shard"}}}]}}'
    )
    for number in range(3):
        pod = burstable(f"s{number}", 100)
        told = {**pod.annotations, "affinity.pinfold.dev/pod": rule}
        node.run(replace(pod, labels={"app": "shard"}, annotations=told))
    here = pools(node)
    (alone,) = (one for one in ("s0", "s1") if here[one] != here["s2"])
    node.remove(alone)
    return alone


def test_a_required_rule_that_does_not_hold_is_mended(node: AskedNode) -> None:
    alone = crowded(node)
    here = pools(node)
    run = rebalance(node, "--apply")
    assert run.exit_code == 0, run.output
    lines = run.output.splitlines()
    (mends,) = {line.split(" of ")[0] for line in lines if line.startswith("  mends ")}
    assert mends.startswith("  mends anti-affinity at socket to app=shard")
    assert len({pools(node)[one] for one in {"s0", "s1", "s2"} - {alone}}) == 2
    (mover,) = (one for one in {"s0", "s1", "s2"} - {alone} if pools(node)[one] != here[one])
    explained = CliRunner().invoke(main, ["explain", mover, f"--control={node.path}"]).output
    assert "because: a required rule holds there that did not hold where it was" in explained
    assert "note: it was moved to mend anti-affinity at socket to app=shard" in explained
    assert not any(one.problems for one in node.client.status().containers)
    node.daemon.front.owner.ask("check", node.daemon.engine.check)


def beside_wolf(node: AskedNode) -> None:
    """A container that may not move beside one that it must be apart from; it may."""
    rule = (
        '{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey":'
        ' "socket", "labelSelector": {"matchLabels": {"app": "wolf"}}}]}}'
    )
    wolf, sheep, full = burstable("wolf", 500), burstable("sheep", 500), guaranteed("full", 4000)
    node.run(full)
    node.run(replace(wolf, labels={"app": "wolf"}))
    told = {"affinity.pinfold.dev/pod": rule, "move.pinfold.dev/pod": "never"}
    node.run(replace(sheep, annotations={**sheep.annotations, **told}))
    node.remove("full")


def test_one_in_the_way_of_a_rule_whose_owner_stays_is_moved(tmp_path: Path) -> None:
    node = AskedNode(tmp_path)
    node.start()
    try:
        beside_wolf(node)
        (there,) = {one for name, one in pools(node).items() if name != "full"}
        (status,) = (one for one in node.client.status().containers if one.problems)
        assert status.container == "default/sheep/sheep"
        refused = node.client.move(node.id_of("sheep"), there, "root")
        assert refused.reason == "its annotation refuses it"
        run = rebalance(node, "--apply")
        assert run.exit_code == 0, run.output
        lines = run.output.splitlines()
        assert lines[-1] == "made: 1 move of 1"
        assert lines[-2].startswith("  mends anti-affinity at socket to app=wolf")
        assert lines[-2].endswith(" of default/sheep/sheep")
        assert pools(node)["sheep"] == there != pools(node)["wolf"]
        assert not set(node.cpus("wolf").split(",")) & set(node.cpus("sheep").split(","))
        explained = CliRunner().invoke(main, ["explain", "wolf", f"--control={node.path}"]).output
        assert "because: a required rule holds there that did not hold where it was" in explained
        assert "note: it was moved to mend anti-affinity at socket to app=wolf" in explained
        assert not any(one.problems for one in node.client.status().containers)
        held = node.client.move(node.id_of("wolf"), pools(node)["wolf"], there)
        assert held.reason == "a required rule says where it is"
        node.daemon.front.owner.ask("check", node.daemon.engine.check)
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("wish", "moves_exclusive", "reason"),
    [
        pytest.param("never", False, "its annotation refuses it", id="it refuses"),
        pytest.param("never", True, "its annotation refuses it", id="whatever is asked for"),
        pytest.param("", False, "it has exclusive cpus", id="exclusive cpus stay"),
        pytest.param("", True, None, id="unless that is asked for"),
        pytest.param("allowed", False, None, id="or its annotation lets them go"),
    ],
)
def test_the_daemon_itself_heeds_who_may_be_moved(
    node: AskedNode, wish: str, moves_exclusive: bool, reason: str | None
) -> None:
    pod = guaranteed("one", 1000)
    told = {"move.pinfold.dev/pod": wish} if wish else {}
    node.run(replace(pod, annotations={**pod.annotations, **told}))
    here = pools(node)["one"]
    other = "socket #1" if here == "socket #0" else "socket #0"
    found = node.client.move(node.id_of("one"), here, other, moves_exclusive=moves_exclusive)
    assert (found.moved, found.reason) == (reason is None, reason)
    assert pools(node)["one"] == (here if reason else other)


def moves_of(node: AskedNode) -> tuple[RebalanceMove, ...]:
    """The moves that are worth it at present."""
    return planned(saved_engine(node.client.state(), MACHINE).snapshot()).moves


def made(node: AskedNode, moves: tuple[RebalanceMove, ...]) -> MoveDocument:
    """The end of the first of some planned moves."""
    promised = move_documents(needed_moves(moves))
    first = moves[0]
    return node.client.move(
        first.container.id, first.before.pool, first.after.pool, promised=promised
    )


def test_a_move_is_not_made_whose_partner_has_gone_elsewhere_meanwhile(node: AskedNode) -> None:
    moves = moves_of(node)
    assert [move.container.name for move in moves] == ["db"]
    assert node.client.move(node.id_of("web"), "socket #1", "socket #0").moved
    found = made(node, moves)
    assert (found.moved, found.reason) == (False, "it gains less by now than was planned")
    assert pools(node)["db"] == "socket #0"


def test_a_move_that_gains_more_by_now_is_made(node: AskedNode) -> None:
    moves = moves_of(node)
    assert node.client.move(node.id_of("web"), "socket #1", "root").moved
    assert node.client.move(node.id_of("web"), "root", "socket #1").moved
    assert made(node, moves).moved


def test_a_rule_that_holds_meanwhile_is_no_reason_to_move(node: AskedNode) -> None:
    alone = crowded(node)
    moves = moves_of(node)
    assert moves[0].mends
    for name in {"s2", "s0", "s1"} - {alone, moves[0].container.name}:
        node.remove(name)
    found = made(node, moves)
    assert not found.moved
    assert found.reason == f"a rule that it was to mend holds by now: {moves[0].mends[0]}"


def test_a_promise_of_another_shape_is_refused(node: AskedNode) -> None:
    for text in ("[{]", '[{"container": 1}]', '[{"x":' + 60_000 * "["):
        with pytest.raises(ControlRequestError, match="promised: "):
            read_promised(text)
    with pytest.raises(ControlError, match="promised: another move comes first"):
        node.client.move(
            *(node.id_of("web"), "socket #1", "socket #0"), promised=move_documents(moves_of(node))
        )


def test_a_promise_of_more_steps_than_a_plan_has_for_one_is_refused(node: AskedNode) -> None:
    steps = move_documents(moves_of(node)) * (NEEDED_MAX + 1)
    with pytest.raises(ControlError, match=f"promised: {NEEDED_MAX + 1} moves"):
        node.client.move(node.id_of("db"), "socket #0", "socket #1", promised=steps)
    assert node.client.move(node.id_of("db"), "socket #0", "socket #1").moved


def test_a_move_is_made_however_long_the_rules_are_that_it_mends(node: AskedNode) -> None:
    """Strangers write them, and a request holds only so much."""
    (step,) = move_documents(moves_of(node))
    promised = [structs.replace(step, mends=(70_000 * "x",))]
    assert node.client.move(node.id_of("db"), "socket #0", "socket #1", promised=promised).moved


def test_a_move_that_the_runtime_does_not_make_stops_the_rest(node: AskedNode) -> None:
    node.runtime.broken_ids.add(node.id_of("db"))
    run = rebalance(node, "--apply")
    assert run.exit_code == 1
    assert run.output.splitlines()[-2:] == [
        "made: 0 moves of 1",
        "stopped at default/db/db: UNKNOWN: failed to update resources — plan anew",
    ]


def test_a_move_that_the_runtime_does_not_make_is_taken_back(node: AskedNode) -> None:
    db = node.id_of("db")
    node.runtime.broken_ids.add(db)
    assert rebalance(node, "--apply").exit_code == 1
    assert eventually(lambda: pools(node)["db"] == "socket #0")
    (found,) = (one for one in node.client.status().containers if one.id == db)
    assert found.intended == found.kernel
    node.runtime.broken_ids.clear()
    node.daemon.front.owner.ask("check", node.daemon.engine.check)
    assert rebalance(node, "--apply").exit_code == 0
    assert (pools(node)["db"], node.cpus("db")) == ("socket #1", "4-7")


def take_back(node: AskedNode, name: str, found: Pinning) -> None:
    """Tell that the runtime refuses what a container was told, and where the kernel has it."""
    container_id = node.id_of(name)
    wanted = node.daemon.engine.pinning(container_id)
    assert wanted is not None
    node.daemon.refused_moves(Unapplied(container_id, wanted, found, "it cannot"))
    node.daemon.front.owner.ask("it is over", lambda: None)


def test_a_refused_move_is_not_taken_back_to_cpus_that_others_have_by_now(node: AskedNode) -> None:
    """As where nobody knew yet that it was refused when they came."""
    assert rebalance(node, "--apply").exit_code == 0
    node.run(guaranteed("calm", 1000))
    assert node.grant("calm").exclusive <= CpuSet.of(1, 2, 3)
    take_back(node, "db", Pinning(cpus=CpuSet.of(1, 2, 3), mems=NodeSet.of(0, 1)))
    assert pools(node)["db"] == "socket #1"
    assert node.daemon.engine.decisions[node.id_of("db")].decided_by == "rebalance"


def test_what_another_program_did_to_a_container_after_its_move_is_no_refusal(
    node: AskedNode,
) -> None:
    assert rebalance(node, "--apply").exit_code == 0
    take_back(node, "db", Pinning(cpus=CpuSet.of(1, 2), mems=NodeSet.of(0, 1)))
    assert pools(node)["db"] == "socket #1"


def test_a_move_is_not_made_while_the_runtime_is_away(node: AskedNode) -> None:
    node.lose_runtime()
    found = node.client.move(node.id_of("db"), "socket #0", "socket #1")
    reason = "the runtime is not connected, or it did not tell what runs"
    assert (found.moved, found.reason, found.pool) == (False, reason, "socket #0")


@pytest.fixture(name="heeded_interrupts")
def fixture_heeded_interrupts() -> Generator[None]:
    """A shell starts what it does not wait for with SIGINT ignored; Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Relay:
    """A socket before a daemon's, at which something happens before the second question."""

    def __init__(self, path: Path, daemon: Path, meanwhile: Callable[[], object]) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._daemon, self._meanwhile = daemon, meanwhile
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Relay":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for one in self._taken:
            one.close()

    def take(self) -> None:
        """Take the next client once it has asked, and pass nothing on."""
        client, _ = self._listener.accept()
        client.recv(1)
        self._taken.append(client)

    def _run(self) -> None:
        self._pass_on()
        self._meanwhile()
        with contextlib.suppress(OSError):
            while True:
                self._pass_on()

    def _pass_on(self) -> None:
        client, _ = self._listener.accept()
        with client, socket.socket(socket.AF_UNIX) as daemon:
            if daemon.connect_ex(str(self._daemon)):
                return
            others = {client: daemon, daemon: client}
            while True:
                for one in select.select(others, (), ())[0]:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    others[one].sendall(data)


@pytest.mark.usefixtures("heeded_interrupts")
def test_whoever_interrupts_it_is_told_what_was_done_until_then(
    node: AskedNode, tmp_path: Path
) -> None:
    def interrupt() -> None:
        relay.take()
        # It has yet to begin to wait: a signal between its last look and the wait wakes nobody.
        time.sleep(0.3)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    told = ["rebalance", "--apply", f"--machine={SPEC}", f"--control={tmp_path / 'relay'}"]
    with Relay(tmp_path / "relay", node.path, interrupt) as relay:
        run = CliRunner().invoke(main, told)
    assert run.exit_code == 130, run.output
    assert run.output.splitlines()[-2:] == [
        "made: 0 moves of 1",
        "stopped at default/db/db: interrupted while the daemon was asked for it — see with"
        " 'pinfold status' where it is",
    ]


def end_container(node: AskedNode) -> None:
    node.remove("db")


def end_socket(node: AskedNode) -> None:
    node.path.unlink()


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        pytest.param(
            end_container, "container: '.*' holds nothing — plan anew", id="who was to move"
        ),
        pytest.param(
            end_socket, ".*: the daemon closed the connection .*", id="who was to move it"
        ),
    ],
)
def test_what_ends_meanwhile_stops_the_rest_and_what_was_done_is_said(
    node: AskedNode, tmp_path: Path, meanwhile: Callable[[AskedNode], object], reason: str
) -> None:
    told = ["rebalance", "--apply", f"--machine={SPEC}", f"--control={tmp_path / 'relay'}"]
    with Relay(tmp_path / "relay", node.path, lambda: meanwhile(node)):
        run = CliRunner().invoke(main, [*told, "-o", "json"])
    assert run.exit_code == 1, run.output
    found = json.loads(run.output)
    assert (found["applied"], len(found["moves"])) == (0, 1)
    assert re.fullmatch(f"default/db/db: {reason}", found["stopped"])


@pytest.mark.parametrize(
    ("container_id", "pool", "complaint"),
    [
        pytest.param("nobody", "root", "container: 'nobody' holds nothing — plan anew", id="gone"),
        pytest.param("", "nowhere", "pool: 'nowhere' is not here — see 'pinfold pools'", id="pool"),
    ],
)
def test_what_is_not_there_is_said(
    node: AskedNode, container_id: str, pool: str, complaint: str
) -> None:
    with pytest.raises(ControlError) as raised:
        node.client.move(container_id or node.id_of("db"), "socket #0", pool)
    assert str(raised.value) == complaint


def test_apply_is_for_the_running_daemon_alone(node: AskedNode, tmp_path: Path) -> None:
    for more in ("--plan", f"--state={tmp_path}"):
        run = rebalance(node, "--apply", more)
        assert run.exit_code == 2
        assert "--apply asks the running daemon: leave --plan and --state out" in run.output

"""`pinfold rebalance` where a container has to go together with others that must be with it."""

import json
import logging
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.commands.saved_node import saved_engine
from pinfold.cmd.control.plan_document import move_documents
from pinfold.cmd.pinfold import main
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import StateFile
from pinfold.policy.engine.rebalance.plan import RebalanceBudget, RebalanceMove
from pinfold.policy.engine.rebalance.plan import rebalance as planned
from pinfold.policy.engine.rebalance.promise import needed_moves

from ..control.asked_node import MACHINE, AskedNode
from ..daemon.paper_node import burstable
from .test_rebalance_apply import SPEC, pools, rebalance

ANTI = "podAntiAffinity", "wolf"
AFFINITY = "podAffinity", "main"


def run_ruled(
    node: AskedNode,
    name: str,
    rule: tuple[str, str] | None,
    when: str = "requiredDuringSchedulingIgnoredDuringExecution",
    **annotations: str,
) -> None:
    """Start a pod with a required rule at sockets about the pods of another name."""
    pod = burstable(name, 500)
    told = {f"{key.replace('_', '-')}.pinfold.dev/pod": text for key, text in annotations.items()}
    if rule is not None:
        kind, about = rule
        one = {"topologyKey": "socket", "labelSelector": {"matchLabels": {"app": about}}}
        told["affinity.pinfold.dev/pod"] = json.dumps({kind: {when: [one]}})
    node.run(replace(pod, labels={"app": name}, annotations={**pod.annotations, **told}))


def run_all(node: AskedNode, **side: str) -> None:
    """Start a pod, one that must be with it (`side`: see `run_ruled`), and one that it flees."""
    run_ruled(node, "main", ANTI)
    run_ruled(node, "side", AFFINITY, **side)
    here = pools(node)
    assert here["main"] == here["side"]
    told = {"pool_name": here["main"], "move": "never", "on_unsatisfiable": "fail"}
    run_ruled(node, "wolf", None, **told)


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    """A container to which one came that it must not be with, and one that must be with it."""
    node = AskedNode(tmp_path)
    node.start()
    run_all(node)
    yield node
    node.stop()


def problems(node: AskedNode) -> set[str]:
    """The pods with a rule that is told not to hold."""
    return {one.container.split("/")[1] for one in node.client.status().containers if one.problems}


def moves_of(node: AskedNode) -> tuple[RebalanceMove, ...]:
    return planned(saved_engine(node.client.state(), MACHINE).snapshot()).moves


def moved(node: AskedNode, *moves: RebalanceMove) -> str:
    """The reason why the first of some planned moves is not made; empty where it is."""
    first, promised = moves[0], move_documents(needed_moves(moves))
    container_id, before, after = first.container.id, first.before.pool, first.after.pool
    return node.client.move(container_id, before, after, promised=promised).reason or ""


def lines_of(run: Result) -> list[str]:
    return [" ".join(line.split()) for line in run.output.splitlines()]


def test_the_plan_names_who_goes_together(node: AskedNode) -> None:
    here = pools(node)["main"]
    there = "socket #0" if here == "socket #1" else "socket #1"
    run = rebalance(node, "--plan")
    assert run.exit_code == 0, run.output
    assert lines_of(run)[-3:] == [
        "default/main/main goes together with default/side/side",
        "mends anti-affinity at socket to app=wolf (affinity.pinfold.dev/pod:1) of"
        " default/main/main",
        "mends affinity at socket to app=main (affinity.pinfold.dev/pod:1) of default/side/side",
    ]
    first, second = json.loads(rebalance(node, "-o", "json").output)["moves"]
    assert (first["container"], first["awaited"]) == ("default/main/main", ["default/side/side"])
    assert second["container"] == "default/side/side"
    assert "awaited" not in second
    assert {one["to"]["pool"] for one in (first, second)} == {there}


def test_the_same_is_planned_from_a_saved_state(node: AskedNode, tmp_path: Path) -> None:
    engine = saved_engine(node.client.state(), MACHINE)
    StateFile(tmp_path, logging.getLogger(__name__)).write(SavedStates().of(engine.snapshot()))
    told = ["rebalance", "--plan", f"--state={tmp_path}", f"--machine={SPEC}"]
    run = CliRunner().invoke(main, told)
    assert (run.exit_code, run.output) == (0, rebalance(node, "--plan").output)


def test_the_daemon_moves_them_one_after_the_other(node: AskedNode) -> None:
    here = pools(node)
    run = rebalance(node, "--apply")
    assert run.exit_code == 0, run.output
    assert lines_of(run)[-1] == "made: 2 moves of 2"
    there = pools(node)
    assert there["main"] == there["side"] != here["main"]
    assert there["wolf"] == here["wolf"]
    assert node.cpus("main") == node.cpus("side")
    assert problems(node) == set()
    for name in ("main", "side"):
        explained = CliRunner().invoke(main, ["explain", name, f"--control={node.path}"]).output
        assert "because: a required rule holds there that did not hold where it was" in explained
    node.daemon.front.owner.ask("check", node.daemon.engine.check)
    assert json.loads(rebalance(node, "-o", "json").output)["moves"] == []


def test_a_budget_of_one_move_is_too_small_for_two(node: AskedNode) -> None:
    assert json.loads(rebalance(node, "--budget=1", "-o", "json").output)["moves"] == []
    assert len(json.loads(rebalance(node, "--budget=2", "-o", "json").output)["moves"]) == 2


def test_nobody_is_moved_alone_whom_others_have_to_follow(node: AskedNode) -> None:
    main_move, _ = moves_of(node)
    assert moved(node, main_move).startswith("default/side/side must be with it")
    assert len(set(pools(node).values())) == 1


def test_nobody_is_moved_first_where_the_next_finds_no_room_by_now(node: AskedNode) -> None:
    moves = moves_of(node)
    pool = moves[0].after.pool
    full = burstable("full", 2300 if pool == "socket #0" else 3300)
    node.run(replace(full, annotations={**full.annotations, "pool-name.pinfold.dev/pod": pool}))
    reason = moved(node, *moves)
    assert reason.startswith("default/side/side, which must be with it, cannot follow: "), reason
    assert pools(node)["main"] == moves[0].before.pool


def test_nobody_is_moved_first_where_the_next_may_not_be_moved(tmp_path: Path) -> None:
    """Whoever made the plan was told that exclusive cpus may be left, and the daemon is not."""
    node = AskedNode(tmp_path)
    node.start()
    try:
        run_all(node, exclusive="1")
        snapshot = saved_engine(node.client.state(), MACHINE).snapshot()
        assert planned(snapshot).moves == ()
        moves = planned(snapshot, RebalanceBudget(moves_exclusive=True)).moves
        reason = "default/side/side, which must be with it, stays: it has exclusive cpus"
        assert moved(node, *moves) == reason
        assert rebalance(node, "--apply", "--exclusive").exit_code == 0
        assert problems(node) == set()
    finally:
        node.stop()


def test_one_that_was_left_on_the_way_follows_with_the_next_plan(node: AskedNode) -> None:
    assert moved(node, *moves_of(node)) == ""
    here = pools(node)
    assert here["side"] == here["wolf"] != here["main"]
    assert problems(node) == {"side"}
    run = rebalance(node, "--apply")
    assert run.exit_code == 0, run.output
    assert lines_of(run)[-1] == "made: 1 move of 1"
    assert pools(node) == {**here, "side": here["main"]}
    assert problems(node) == set()


def test_a_plan_ends_where_the_daemon_has_mended_the_rest_by_itself(tmp_path: Path) -> None:
    """Whose rules are required during execution follows by itself, here at once."""
    node = AskedNode(tmp_path, duringExecution={"gracePeriod": "0s"})
    node.start()
    try:
        run_all(node, when="requiredDuringSchedulingRequiredDuringExecution")
        moves = moves_of(node)
        there = moves[0].after.pool
        assert moved(node, *moves) == ""
        assert problems(node) == {"side"}
        for _ in range(2):
            node.daemon.rules.look()
            node.settle()
        assert {pools(node)[one] for one in ("main", "side")} == {there}
        assert moved(node, *moves[1:]) == f"it is in {there} by now"
        assert problems(node) == set()
        run = rebalance(node, "--apply")
        assert (run.exit_code, lines_of(run)[-1]) == (0, "made: 0 moves of 0")
        node.daemon.front.owner.ask("check", node.daemon.engine.check)
    finally:
        node.stop()

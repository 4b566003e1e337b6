"""Rules that do not hold, in the history: those of containers that are kept as they are, too."""

import json
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs

from pinfold.cmd.control.history.saved_decision import SavedDecision
from pinfold.policy.manifests.pod_spec import PodSpec
from tests.unit.policy.engine.ruled_pods import apart, term

from ...daemon.paper_node import burstable, guaranteed
from .test_history_keeper import KeptNode

SHY = "anti-affinity at socket to app=wolf (affinity.pinfold.dev/pod:1) of default/shy/shy"
WITH_WOLF = (f"{SHY}: in one socket with default/wolf/wolf",)


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[KeptNode]:
    node = KeptNode(tmp_path)
    node.start()
    yield node
    node.stop()


def pod(name: str, rules: object = None) -> PodSpec:
    texts = {} if rules is None else {"affinity.pinfold.dev/pod": json.dumps(rules)}
    return replace(burstable(name, 100), annotations=texts, labels={"app": name})


def explained(node: KeptNode, name: str = "shy") -> tuple[Sequence[str], Sequence[str]]:
    """The unmet rules of a container, for tools and for people."""
    request = node.client.explain(name).request
    unmet = cast("Sequence[str]", request["unmet"])
    problems = cast("Sequence[str]", request["problems"])
    begin = "unmet: "
    return tuple(unmet), tuple(one.removeprefix(begin) for one in problems if begin in one)


def run_both(node: KeptNode) -> None:
    """In one socket, as somebody has all of the other one."""
    node.run(guaranteed("full", 4000))
    node.run(pod("shy", apart(term("socket", "wolf"))))
    node.run(pod("wolf"))


def events(node: KeptNode, name: str) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (one.event, one.decision.unmet if one.decision is not None else ())
        for one in node.kept()
        if one.path == f"default/{name}/{name}"
    ]


def test_a_rule_that_broke_since_a_decision_is_told_to_people_after_a_restart(
    node: KeptNode,
) -> None:
    run_both(node)
    assert explained(node) == (WITH_WOLF, WITH_WOLF)
    node.restart()
    assert explained(node) == (WITH_WOLF, WITH_WOLF)
    node.remove("wolf")
    assert explained(node) == ((), ())
    node.restart()
    assert explained(node) == ((), ())


def test_what_does_not_hold_at_a_container_that_is_kept_is_known_once_it_is_gone(
    node: KeptNode,
) -> None:
    run_both(node)
    was = node.client.explain("shy")
    node.restart()
    now = node.client.explain("shy")
    assert (now.at, now.decided_by, now.candidates) == (
        was.at or now.at,
        was.decided_by,
        was.candidates,
    )
    node.remove("shy")
    node.restart()
    gone = node.client.explain("shy")
    assert (gone.decided_by, gone.candidates) == (was.decided_by, was.candidates)
    assert explained(node) == (WITH_WOLF, WITH_WOLF)


def test_what_does_not_hold_at_one_that_is_kept_is_written_as_it_changes_and_once(
    node: KeptNode,
) -> None:
    run_both(node)
    node.restart()
    node.restart()
    node.restart()
    assert events(node, "shy") == [("create", ()), ("synchronize", WITH_WOLF)]
    node.remove("wolf")
    node.restart()
    node.restart()
    assert events(node, "shy") == [
        ("create", ()),
        ("synchronize", WITH_WOLF),
        ("synchronize", ()),
    ]


def test_a_crowd_that_breaks_a_rule_and_grows_between_restarts_is_no_line_more(
    node: KeptNode,
) -> None:
    run_both(node)
    for number in range(5):
        node.run(replace(pod(f"wolf{number}"), labels={"app": "wolf"}))
        node.restart()
    (told,), _ = explained(node)
    assert told.endswith(" and 2 more")
    assert events(node, "shy") == [("create", ()), ("synchronize", told_with("wolf", "wolf0"))]


def test_rules_are_not_told_of_a_pool_that_a_container_has_left_since(node: KeptNode) -> None:
    run_both(node)
    node.restart()
    node.restart()
    first, last = (one for one in node.kept() if one.path == "default/shy/shy")
    assert first.decision is not None
    assert last.decision is not None
    assert first.with_rules_of(last).decision == structs.replace(first.decision, **rules_of(last))
    elsewhere = structs.replace(first.decision, pool="root")
    assert structs.replace(first, decision=elsewhere).with_rules_of(last) == last


def rules_of(line: SavedDecision) -> dict[str, object]:
    assert line.decision is not None
    return {"unmet": line.decision.unmet, "problems": line.decision.problems}


def told_with(*names: str) -> tuple[str, ...]:
    return (f"{SHY}: in one socket with " + ", ".join(f"default/{one}/{one}" for one in names),)

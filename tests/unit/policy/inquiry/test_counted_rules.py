"""Rules that count for a container, of every kind, with whom they match."""

import pytest

from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.inquiry import counted_rules as module
from pinfold.policy.inquiry.alternatives import find_alternatives
from pinfold.policy.inquiry.counted_rules import RuleKind, counted_rules
from pinfold.policy.model.container import ContainerId

from ..engine.ruled_pods import apart, container_of, engine_of, near, placed, prefer, term
from .test_alternatives import FRIENDS, container, engine

SPEC = "socket:2 numa:1 core:4 thread:1 mem:4G"


def told(snapshot: Snapshot, name: str) -> list[tuple[str, str, int | None, list[str]]]:
    """Owner, kind, weight and matches of every rule that counts for a container."""
    found = counted_rules(snapshot, snapshot.containers[ContainerId(name)])
    return [
        (one.owner.pod.name, one.kind.value, one.weight, [match.pod.name for match in one.matches])
        for one in found
    ]


def test_weights_are_its_own_and_the_symmetric_ones_of_others() -> None:
    symmetric = FRIENDS.replace("web:", "fan:").replace("weight: 5", "weight: 7\n  symmetric: true")
    one = engine(
        container("db", 1000),
        container("web", 500, affinity=FRIENDS),
        container("fan", 500, affinity=symmetric),
        container("stranger", 500),
    )
    snapshot = one.snapshot()
    assert told(snapshot, "web") == [("web", "weight", 5, ["db"])]
    assert told(snapshot, "db") == [("fan", "weight", 7, ["db"])]
    assert told(snapshot, "stranger") == []
    (rule,) = counted_rules(snapshot, snapshot.containers[ContainerId("web")])
    assert rule.text == "name In db, in scope name Exists (resource-policy.nri.io/affinity:2)"


def test_required_and_preferred_rules_are_told_of_both_sides() -> None:
    one = engine_of(SPEC)
    for pod in (
        container_of("db", 1),
        container_of("web", 1, near(term("socket", "db"))),
        container_of("wolf", 1, apart(term("socket", "sheep"))),
        container_of("fan", 1, prefer(30, term("socket", "db"))),
    ):
        placed(one, pod)
    snapshot = one.snapshot()
    assert told(snapshot, "web-main") == [("web", "required", None, ["db"])]
    assert told(snapshot, "db-main") == [
        ("web", "required", None, ["db"]),
        ("fan", "preferred", 30, ["db"]),
    ]
    assert told(snapshot, "wolf-main") == [("wolf", "required", None, [])]
    (rule,) = counted_rules(snapshot, snapshot.containers[ContainerId("wolf-main")])
    assert rule.kind is RuleKind.REQUIRED
    assert rule.text.startswith("anti-affinity at socket to app=sheep (")


def test_rules_about_pools_match_no_container() -> None:
    one = engine_of(SPEC)
    named = container_of("a", 1, annotations={"pool-name.pinfold.dev/pod": "socket #1"})
    chosen = container_of("b", 1, annotations={"pool-selector.pinfold.dev/pod": "socket=0"})
    placed(one, named)
    placed(one, chosen)
    snapshot = one.snapshot()
    assert told(snapshot, "a-main") == [("a", "required", None, [])]
    assert told(snapshot, "b-main") == [("b", "required", None, [])]
    (rule,) = counted_rules(snapshot, snapshot.containers[ContainerId("a-main")])
    assert rule.text == "the pool socket #1 (pool-name)"


def test_a_refusal_by_a_rule_is_told_with_the_place_without_rules() -> None:
    one = engine_of("socket:1 numa:1 core:8 thread:1 mem:4G")
    placed(one, container_of("wolf", 1, apart(term("socket", "sheep"))))
    sheep = container_of("sheep", 1, apart(term("socket", "wolf")), fails=True)
    one.create(sheep)
    snapshot = one.snapshot()
    assert ("wolf", "required", None, ["sheep"]) in told(snapshot, "sheep-main")
    assert ("sheep", "required", None, ["wolf"]) in told(snapshot, "sheep-main")
    assert find_alternatives(snapshot, sheep) == (
        "without its rules it would be placed in socket #0",
    )


def test_too_many_rules_are_cut_and_take_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine_of(SPEC)
    for pod in (container_of("db", 1), container_of("web", 1, near(term("socket", "db")))):
        placed(one, pod)
    monkeypatch.setattr(module, "STEPS_MAX", 10)
    assert told(one.snapshot(), "web-main") == []

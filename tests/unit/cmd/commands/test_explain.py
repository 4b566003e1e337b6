"""`pinfold explain` and `describe` as they are typed, asked of a daemon on paper."""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from pinfold.cmd.commands.node.explain import explanation_lines
from pinfold.cmd.control.decision_document import decision_document
from pinfold.cmd.control.documents import (
    GRANT,
    CandidateDocument,
    DroppedDocument,
    ExplainDocument,
    RuleDocument,
)
from pinfold.cmd.control.explain_document import explain_document
from pinfold.cmd.pinfold import main
from pinfold.policy.manifests.manifest import parse_manifests

from ..control.asked_node import AskedNode
from ..daemon.paper_node import burstable, guaranteed

PODS = """
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations: {resource-policy.nri.io/affinity: "web: [db]"}
spec:
  containers:
  - {name: db, resources: {limits: {cpu: 2, memory: 100M}}}
  - {name: web, resources: {limits: {cpu: 1500m, memory: 100M}}}
"""


@pytest.fixture(name="node", scope="module")
def fixture_node(tmp_path_factory: pytest.TempPathFactory) -> Generator[AskedNode]:
    node = AskedNode(tmp_path_factory.mktemp("node"))
    node.start()
    node.run(*parse_manifests(PODS, "pods.yaml"))
    node.refusal(guaranteed("vast", 8000))
    yield node
    node.stop()


def pinfold(node: AskedNode, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, f"--control={node.path}"])


def test_who_is_in_another_pool_by_now_is_told_to_be_there(node: AskedNode) -> None:
    snapshot = node.daemon.engine.snapshot()
    container_id = node.id_of("web")
    container, decision = snapshot.containers[container_id], snapshot.decisions[container_id]
    decided = decision_document(container, decision, {})
    before = structs.replace(decided, pool="socket #0")
    text = "\n".join(explanation_lines(explain_document(snapshot, container, before, None)))
    assert text.startswith("default/shop/web is in socket #1 on cpus 6-7, memory 1, decided\n")
    assert "note: it was placed in socket #0; what happened since has put it into socket #1" in text
    unmoved = explanation_lines(explain_document(snapshot, container, decided, None))
    assert not any("what happened since" in line for line in unmoved)


def test_who_has_ended_is_not_said_to_be_where_it_was(node: AskedNode) -> None:
    snapshot = node.daemon.engine.snapshot()
    container = snapshot.containers[node.id_of("web")]
    decided = decision_document(container, snapshot.decisions[container.id], {})
    gone = structs.replace(snapshot, grants={})
    document = explain_document(gone, container, decided, None)
    first, *_ = explanation_lines(document)
    assert first.startswith("default/shop/web has ended: it was in socket #1 on cpus ")
    told = [*explanation_lines(explain_document(snapshot, container, decided, None))]
    assert told[0].startswith("default/shop/web is in socket #1 on cpus ")


def test_who_asks_does_not_wait_for_what_the_daemon_alone_needs(node: AskedNode) -> None:
    program = (
        "import sys\n"
        "from pinfold.cmd.pinfold import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print(*sys.modules)\n"
    )
    arguments = ["explain", "web", f"--control={node.path}"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "default/shop/web is in" in done.stdout
    needless = {
        "rich",
        "yaml",
        "tarfile",
        "psutil",
        "google.protobuf",
        "pinfold.policy.engine.engine",
    }
    assert not needless & {*loaded}


def test_a_person_would_say_it_so_and_then_show_the_table(node: AskedNode) -> None:
    run = pinfold(node, "explain", "web")
    assert run.exit_code == 0, run.output
    assert run.output == (
        "default/shop/web is in socket #1 on cpus 6-7, memory 1, decided at 2023-11-14T22:13:20Z\n"
        "  it asked for 1 exclusive CPU, 500m of shared CPU, 95.4 MiB of memory (Guaranteed)\n"
        "  because: nearest to the containers it wants near, farthest from those it avoids;"
        " next best was socket #0\n"
        "  rule: its own, of weight 1, matches default/shop/db: name In db, in its own pod"
        " (resource-policy.nri.io/affinity (shorthand))\n"
        "  with 2100m of CPU instead of 1500m it would be placed in socket #0\n"
        "  without its rules it would be placed in socket #0\n"
        "\n"
        "  rank  pool       affinity  memory_nodes\n"
        "  1     socket #1  -16       1\n"
        "  2     socket #0  -9        1\n"
        "  3     root       -9        2\n"
        "\n"
        "  the first column that differs decides, the smaller number wins:\n"
        "    affinity      nearest to the containers it wants near, farthest from those it avoids\n"
        "    memory_nodes  it needs the fewest memory nodes\n"
    )


def test_a_refused_container_is_explained_although_it_is_gone(node: AskedNode) -> None:
    run = pinfold(node, "explain", "default/vast/vast")
    lines = run.output.splitlines()
    assert lines[0] == (
        "default/vast/vast was refused at 2023-11-14T22:13:20Z: "
        "no pool has room for 8 exclusive CPUs, 1 GiB of memory"
    )
    assert lines[1] == "  it asked for 8 exclusive CPUs, 1 GiB of memory (Guaranteed)"
    assert lines[2].startswith("  with 3000m of CPU instead of 8000m it would be placed in ")
    assert "  -     root       exclusive CPUs: wanted 8, available 3" in lines


def test_document_for_tools_is_that_of_the_contract(node: AskedNode) -> None:
    found = json.loads(pinfold(node, "explain", "shop/db", "-o", "json").output)
    assert list(found) == sorted(
        (
            *("container", "at", "result", "pool", "cpus", "mems", "decided_by", "against"),
            *("request", "rules", "candidates", "moved", "alternatives"),
        )
    )
    assert (found["result"], found["at"]) == ("grant", "2023-11-14T22:13:20Z")
    assert (found["pool"], found["cpus"], found["mems"]) == ("socket #1", "4-5", "1")
    assert (found["decided_by"], found["against"]) == ("exclusive_room", "socket #0")
    (rule,) = found["rules"]
    assert rule == {
        "owner": "default/shop/db",
        "text": "name In web, in its own pod (resource-policy.nri.io/affinity (shorthand))",
        "kind": "weight",
        "weight": 1,
        "matches": ["default/shop/web"],
    }
    assert [one["pool"] for one in found["candidates"]] == ["socket #1", "socket #0", "root"]
    assert all(one["dropped"] is None and one["rank"] for one in found["candidates"])
    refused = json.loads(pinfold(node, "explain", "vast", "-o", "json").output)
    assert (refused["result"], refused["pool"], refused["cpus"]) == ("refusal", None, None)
    dropped = {"criterion": "exclusive CPUs", "wanted": "8", "available": "3"}
    assert refused["candidates"][-1] == {"pool": "root", "rank": None, "dropped": dropped}


RULED = """
apiVersion: v1
kind: Pod
metadata:
  name: placed
  annotations:
    pool-name.pinfold.dev/pod: "socket #1"
    affinity.pinfold.dev/pod: |
      poolAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 5, preference: {matchExpressions: [{key: socket, operator: In, values: ["1"]}]}}
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {labelSelector: {matchLabels: {app: nobody}}, topologyKey: core}
spec: {containers: [{name: c, resources: {limits: {cpu: 100m, memory: 100M}}}]}
"""
SHY = """
apiVersion: v1
kind: Pod
metadata:
  name: shy%s
  labels: {app: shy}
  annotations:
    affinity.pinfold.dev/pod: |
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {labelSelector: {matchLabels: {app: shy}}, topologyKey: core}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
"""


def rule_lines(run: Result) -> list[str]:
    return [line for line in run.output.splitlines() if line.startswith("  rule: ")]


@pytest.fixture(name="ruled")
def fixture_ruled(tmp_path: pathlib.Path) -> Generator[AskedNode]:
    node = AskedNode(tmp_path)
    node.start()
    yield node
    node.stop()


def test_of_a_rule_about_pools_it_is_not_said_whom_it_matches(ruled: AskedNode) -> None:
    ruled.run(*parse_manifests(RULED, "pods.yaml"))
    assert rule_lines(pinfold(ruled, "explain", "placed")) == [
        "  rule: its own, required, matches no container: anti-affinity at core to app=nobody"
        " (affinity.pinfold.dev/pod:6)",
        "  rule: its own, preferred, of weight 5: preferred pool with socket=1"
        " (affinity.pinfold.dev/pod:3)",
        "  rule: its own, required: the pool socket #1 (pool-name)",
    ]
    found = json.loads(pinfold(ruled, "explain", "placed", "-o", "json").output)
    assert [one.get("about_pools", False) for one in found["rules"]] == [False, True, True]


def test_one_rule_of_several_others_is_said_once(ruled: AskedNode) -> None:
    for number in range(4):
        ruled.run(*parse_manifests(SHY % number, "pods.yaml"))
    own, others = rule_lines(pinfold(ruled, "explain", "shy3"))
    text = "anti-affinity at core to app=shy (affinity.pinfold.dev/pod:3)"
    assert own.startswith("  rule: its own, required, matches default/shy")
    assert re.fullmatch(
        re.escape(
            f"  rule: that of default/shyN/c and 2 others, required, matches it: {text}"
        ).replace("N", "[0-2]"),
        others,
    )
    assert len(json.loads(pinfold(ruled, "explain", "shy3", "-o", "json").output)["rules"]) == 4


def explained(*candidates: CandidateDocument, **fields: Any) -> list[str]:
    """The lines about a container with these candidates, after the first one."""
    found = ExplainDocument(
        container="default/it/c",
        at=None,
        result=fields.pop("result", GRANT),
        pool="root",
        cpus="0-3",
        mems="0",
        decided_by=fields.pop("decided_by", "depth"),
        against=None,
        request={"text": "nothing", "qos": "BestEffort"},
        rules=fields.pop("rules", ()),
        candidates=candidates,
        moved=(),
        alternatives=(),
        **fields,
    )
    return [*explanation_lines(found)]


def ranked(pool: str, *ranks: int) -> CandidateDocument:
    names = ("depth", "exclusive_pool", "neighbours", "shared_room", "pool_id")
    rank: dict[str, int] = dict(zip(names, ranks, strict=True))
    return CandidateDocument(pool=pool, rank=rank, dropped=None)


def dropped(pool: str, criterion: str) -> CandidateDocument:
    why = DroppedDocument(criterion=criterion, wanted="some", available="none")
    return CandidateDocument(pool=pool, rank=None, dropped=why)


def test_the_columns_are_those_that_put_one_pool_before_the_next() -> None:
    lines = explained(
        ranked("a", -2, 0, 1, -500, 0),
        ranked("b", -2, 1, 0, -900, 1),
        ranked("c", -1, 2, 5, -900, 2),
    )
    assert lines[lines.index("") + 1 :] == [
        "  rank  pool  depth  exclusive_pool",
        "  1     a     -2     0",
        "  2     b     -2     1",
        "  3     c     -1     2",
        "",
        "  the first column that differs decides, the smaller number wins:",
        "    depth           the tightest pool that holds it",
        "    exclusive_pool  the first of equal pools",
    ]


def test_pools_that_are_alike_are_told_apart_by_their_order() -> None:
    lines = explained(ranked("a", -2, 0, 1, -5, 0), ranked("b", -2, 0, 1, -5, 1))
    assert lines[-4:-2] == ["  2     b     1", ""]
    assert lines[-1] == "    pool_id  the first of equal pools"


def test_a_long_reason_of_several_pools_is_said_once() -> None:
    rule = f"anti-affinity at numa to app=web ({'x' * 60})"
    pools = dropped("a", rule), dropped("b", "cpus"), dropped("c", rule), dropped("d", "cpus")
    assert explained(*pools)[-4:] == [
        f"  -     a     {rule}: wanted some, available none",
        "  -     b     cpus: wanted some, available none",
        "  -     c     as a",
        "  -     d     cpus: wanted some, available none",
    ]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        pytest.param(
            "no pool has room for it — a, b: cpus: wanted some, available none"
            " — besides, affinity to x: wanted y — to make room, stop or move z",
            ["besides, affinity to x: wanted y", "to make room, stop or move z"],
            id="but the pools, which are below",
        ),
        pytest.param(
            "no pool has room for it — every pool: cpus: wanted some, available none",
            [],
            id="nor that it is the same for all of them",
        ),
        pytest.param(
            "rules leave no room for it — a: r: wanted some, available none; b: r"
            " — besides, the same rule of z and 3 others — to make room, stop or move z",
            ["to make room, stop or move z"],
            id="and a rule that is the same as one of those",
        ),
        pytest.param("it is too late", [], id="nothing where there is one part"),
    ],
)
def test_a_refusal_is_told_part_by_part(reason: str, told: list[str]) -> None:
    rule = RuleDocument(owner="z", text="r", kind="required", weight=None, matches=())
    pools = dropped("a", "cpus"), dropped("b", "cpus")
    lines = explained(*pools, result="refusal", decided_by=reason, rules=(rule,))
    assert lines[0] == f"default/it/c was refused: {reason.partition(' — ')[0]}"
    assert lines[1 : lines.index("  it asked for nothing (BestEffort)")] == [
        f"  {one}" for one in told
    ]


def test_without_columns_there_is_no_legend(node: AskedNode) -> None:
    assert "the first column" not in pinfold(node, "explain", "default/vast/vast").output


def test_who_else_moved_is_said(node: AskedNode) -> None:
    node.run(burstable("side", 100), guaranteed("late", 2000))
    try:
        (moved,) = json.loads(pinfold(node, "explain", "late", "-o", "json").output)["moved"]
        assert moved == {
            "container": "default/side/side",
            "from": {"cpus": "1-3", "mems": "0-1"},
            "to": {"cpus": node.cpus("side"), "mems": "0-1"},
        }
        assert "  for it moved default/side/side from cpus 1-3, memory 0-1 to cpus " in (
            pinfold(node, "explain", "late").output
        )
    finally:
        node.remove("late")
        node.remove("side")


def test_a_pod_is_described_container_by_container(node: AskedNode) -> None:
    run = pinfold(node, "describe", "shop")
    assert run.exit_code == 0, run.output
    assert (
        run.output
        == "\n\n".join(pinfold(node, "explain", name).output.rstrip("\n") for name in ("db", "web"))
        + "\n"
    )
    assert pinfold(node, "describe", "default/shop").output == run.output
    run = pinfold(node, "describe", "nobody")
    assert (run.exit_code, run.output) == (
        2,
        "pod: 'nobody' has no container here"
        " — see 'pinfold status', or ask 'pinfold explain' where it was refused\n",
    )


def test_what_strangers_wrote_reaches_no_terminal_as_it_is(node: AskedNode) -> None:
    rule = 'odd: [{match: {key: name, operator: In, values: ["\\e[31mred"]}}]'
    odd = replace(burstable("odd", 10), annotations={"resource-policy.nri.io/affinity": rule})
    node.run(odd)
    try:
        found = node.client.explain("odd")
        assert "\x1b[31mred" in found.rules[0].text
        run = pinfold(node, "explain", "odd")
        assert "[31mred" in run.output
        assert "\x1b" not in run.output
    finally:
        node.remove("odd")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("shop", "container: 'shop' is one of several — name one: default/shop/db ("),
        ("none", "container: 'none' is not here — see 'pinfold status'\n"),
    ],
)
def test_what_is_not_one_container_is_status_two(
    node: AskedNode, name: str, complaint: str
) -> None:
    run = pinfold(node, "explain", name)
    assert run.exit_code == 2
    assert run.output.startswith(complaint)


def test_who_moved_is_told_by_name_also_when_gone(node: AskedNode) -> None:
    node.run(burstable("gone", 100))
    node.run(guaranteed("own", 1000))
    try:
        before = pinfold(node, "explain", "own").output
        assert "for it moved default/gone/gone from cpus " in before
        node.remove("gone")
        assert "for it moved default/gone/gone from cpus " in pinfold(node, "explain", "own").output
        assert pinfold(node, "describe", "own").output == pinfold(node, "explain", "own").output
    finally:
        node.remove("own")

"""Pools, containers, plans and captures, asked of a daemon on paper."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import os
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.control import slow_answers
from pinfold.cmd.control.api import control_pb2 as api
from pinfold.cmd.control.control_client import ControlError
from pinfold.cmd.pinfold import main
from pinfold.nri.dispatch.pacer import Pacer
from pinfold.topology.made.snapshot import pack
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

from ..daemon.paper_node import burstable, fan, guaranteed
from .asked_node import MACHINE, AskedNode

SECONDS = 20
SPEC = "socket:2 numa:1 core:4 thread:1 mem:8G"


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[AskedNode]:
    root = tmp_path / "machine"
    write_tree(machine_snapshot(MACHINE), os.fspath(root))
    node = AskedNode(tmp_path, root)
    node.start()
    yield node
    node.stop()


def raw(node: AskedNode, method: str, request: bytes) -> bytes:
    """An answer as it comes."""
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{node.path}", options) as channel:
        ask = channel.unary_unary(f"/pinfold.control.v1.Control/{method}", None, None)
        return cast(bytes, ask(request, timeout=SECONDS))


def document(node: AskedNode, method: str, request: bytes = b"") -> Any:
    return json.loads(api.Document.FromString(raw(node, method, request)).json)


def plan(node: AskedNode, **fields: Any) -> Any:
    return document(node, "Plan", api.PlanRequest(**fields).SerializeToString())


def pinfold(node: AskedNode, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, f"--control={node.path}"])


def test_pools_are_those_of_the_command_on_the_same_machine(
    node: AskedNode, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("reservedResources: {cpu: 'cpuset:0'}\n")
    arguments = ("pools", f"--sysfs-root={tmp_path / 'machine'}", f"--config={file}", "-o", "json")
    shown = CliRunner().invoke(main, arguments)
    node.run(guaranteed("db", 2000))
    assert document(node, "Pools")["pools"] == json.loads(shown.output)["pools"]
    assert document(node, "Pools").keys() == json.loads(shown.output).keys()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ["default/db/db", "default/web/web"]),
        ("db", ["default/db/db"]),
        ("default/web", ["default/web/web"]),
        ("default/web/web", ["default/web/web"]),
        ("web/web", ["default/web/web"]),
        ("we", []),
        ("nobody", []),
    ],
)
def test_containers_are_those_of_the_status_with_the_name(
    node: AskedNode, name: str, expected: list[str]
) -> None:
    node.run(guaranteed("db", 2000), burstable("web", 500))
    found = node.client.containers(name).containers
    assert [one.container for one in found] == expected
    known = {one.container: one for one in node.client.status().containers}
    assert [known[one.container] for one in found] == list(found)


def test_a_drifted_container_is_told_as_such(node: AskedNode) -> None:
    node.run(guaranteed("db", 2000))
    node.runtime.kernel[node.id_of("db")].cpus = "0-7"
    (db,) = node.client.containers("db").containers
    assert (db.drift, db.kernel and db.kernel.cpus) == (True, "0-7")


def test_a_plan_is_that_of_the_command(node: AskedNode) -> None:
    node.run(burstable("db", 600), fan("web", "db"))
    (web,) = node.client.containers("web").containers
    other = {"socket #0": "socket #1", "socket #1": "socket #0"}[web.pool]
    assert node.client.move(web.id, web.pool, other).moved
    run = pinfold(node, "rebalance", f"--machine={SPEC}", "-o", "json")
    assert run.exit_code == 0, run.output
    assert plan(node) == json.loads(run.output)
    (move,) = plan(node)["moves"]
    # Either of them may go to the other.
    assert (move["container"], move["from"]["pool"]) == ("default/db/db", web.pool)
    assert (move["to"]["pool"], move["gain"] > 0) == (other, True)
    assert plan(node, moves=0)["moves"] == []


def test_a_plan_for_very_many_is_left_to_others(
    node: AskedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_answers, "PLANNED_MAX", 1)
    node.run(burstable("a", 100), burstable("b", 100))
    with pytest.raises(grpc.RpcError) as error:
        plan(node)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "2 containers are more than 1 — ask for the state" in str(error.value.details())


@pytest.mark.parametrize("name", ["node.tar.xz", "node.tar.gz", "node.tar"])
def test_the_daemons_machine_is_captured_as_the_command_does_it_alone(
    node: AskedNode, tmp_path: Path, name: str
) -> None:
    file, other = tmp_path / name, tmp_path / f"other-{name}"
    run = pinfold(node, "capture", str(file), "--running")
    assert run.exit_code == 0, run.output
    root = tmp_path / "machine"
    alone = CliRunner().invoke(main, ["capture", str(other), f"--sysfs-root={root}"])
    assert alone.output.replace("other-", "") == run.output
    assert file.read_bytes() == other.read_bytes()
    assert "8 cpus, 2 NUMA nodes" in run.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("here.zip", "--running"), "unknown kind of archive — name it *.tar.xz or *.tar.gz"),
        (("here.tar", "--running", "--sysfs-root=/"), "exclude each other; give one"),
    ],
)
def test_what_cannot_be_captured_is_an_error_and_leaves_nothing(
    node: AskedNode, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    name, *others = arguments
    run = pinfold(node, "capture", str(tmp_path / name), *others)
    assert run.exit_code == 2
    assert message in run.output
    assert not (tmp_path / name).exists()


def test_an_archive_that_is_too_large_for_an_answer_is_refused(
    node: AskedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_answers, "_ARCHIVE_BYTES_MAX", 20_000)
    with pytest.raises(ControlError, match=r"node.tar: \d+ bytes are too many for an answer — "):
        node.client.capture("node.tar")
    assert len(node.client.capture("node.tar.xz")) < 20_000


def test_a_made_up_machine_has_nothing_to_capture(tmp_path: Path) -> None:
    node = AskedNode(tmp_path)
    node.start()
    try:
        with pytest.raises(ControlError, match="made up, or an archive — use its --machine or"):
            node.client.capture("node.tar")
    finally:
        node.stop()


def test_a_capture_waits_for_another_one_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_answers, "_TURN_SECONDS", 0.05)
    write_tree(machine_snapshot(MACHINE), os.fspath(tmp_path))
    begun, over = threading.Event(), threading.Event()

    def is_needed() -> bool:
        begun.set()
        over.wait(SECONDS)
        return False

    answers = slow_answers.SlowAnswers(os.fspath(tmp_path), Pacer(is_needed))
    first = threading.Thread(target=answers.capture, args=("node.tar",))
    first.start()
    assert begun.wait(SECONDS)
    with pytest.raises(TimeoutError, match="another plan or capture is being made"):
        answers.capture("node.tar")
    over.set()
    first.join(SECONDS)
    assert pack(machine_snapshot(MACHINE), "a.tar")[:4] == answers.capture("node.tar")[:4]


def test_containers_start_while_plans_and_captures_are_made(node: AskedNode) -> None:
    is_over, failures = threading.Event(), list[Exception]()

    def ask() -> None:
        while not is_over.is_set():
            try:
                node.client.capture("node.tar")
                plan(node)
            except (ControlError, grpc.RpcError) as error:
                failures.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    node.run(*(burstable(f"web-{number}", 10) for number in range(10)))
    is_over.set()
    asker.join(SECONDS)
    assert failures == []
    assert len(node.client.containers().containers) == 10

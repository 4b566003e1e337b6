"""`pinfold top` and `status --watch`, asked of a daemon on paper and of cgroups that are files."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.commands.node import watch_option
from pinfold.cmd.commands.node.usage_document import usage_document
from pinfold.cmd.commands.node.watch_option import watch
from pinfold.cmd.kernel.cgroup_usage import CgroupUsage
from pinfold.cmd.pinfold import main
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

from ..control.asked_node import MACHINE, AskedNode
from ..daemon.paper_node import burstable, guaranteed
from ..kernel.test_cgroup_usage import unified


@pytest.fixture(name="node", scope="module")
def fixture_node(tmp_path_factory: pytest.TempPathFactory) -> Generator[AskedNode]:
    node = AskedNode(tmp_path_factory.mktemp("node"))
    node.start()
    node.run(guaranteed("db", 2000), burstable("side", 500))
    yield node
    node.stop()


def usages(node: AskedNode, **used: int) -> dict[str, CgroupUsage]:
    return {
        node.id_of(name): CgroupUsage(
            used_usec=usec, throttled_usec=usec // 10, waiting_usec=0, memory_bytes={0: 300, 1: 100}
        )
        for name, usec in used.items()
    }


def test_usage_is_the_difference_of_two_looks(node: AskedNode) -> None:
    status = node.client.status()
    before, after = usages(node, db=1_000_000, side=0), usages(node, db=4_000_000, side=500_000)
    found = usage_document(status, before, after, 2.0, MACHINE)
    db, side = found.containers
    assert (db.container, db.granted_milli, db.used_milli) == ("default/db/db", 2000, 1500)
    assert (db.throttled_ratio, db.waiting_ratio) == (0.15, 0.0)
    assert (side.granted_milli, side.used_milli) == (500, 250)
    near = 300 if node.mems("db") == "0" else 100
    assert (db.memory_bytes, db.remote_ratio) == (400, (400 - near) / 400)
    pools = {one.name: one for one in found.pools}
    assert pools["root"].granted_milli == 2500
    assert pools["root"].used_milli == 1750
    assert (pools["root"].throttled_ratio, pools["root"].waiting_ratio) == (0.15, 0.0)
    assert pools[db.pool].used_milli == 1500 + (250 if side.pool == db.pool else 0)


def test_a_container_that_began_anew_or_is_not_counted_has_unknown_usage(node: AskedNode) -> None:
    found = usage_document(
        node.client.status(), usages(node, db=9), usages(node, db=5), 1.0, MACHINE
    )
    assert [one.used_milli for one in found.containers] == [None, None]
    held = {one.pool for one in found.containers}
    for pool in found.pools:
        is_empty = pool.name not in {*held, "root"}
        assert pool.used_milli == (0 if is_empty else None), pool.name


def test_nothing_is_known_of_pools_of_whose_containers_nothing_is(node: AskedNode) -> None:
    found = usage_document(node.client.status(), {}, {}, 1.0, MACHINE)
    held = {*(one.pool for one in found.containers), "root"}
    for pool in found.pools:
        known = (pool.used_milli, pool.throttled_ratio, pool.waiting_ratio)
        assert known == ((None,) * 3 if pool.name in held else (0, 0.0, 0.0)), pool.name


def top(node: AskedNode, root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        main,
        ["top", f"--control={node.path}", f"--sysfs-root={root}", "--seconds=0.05", *arguments],
    )


@pytest.fixture(name="root")
def fixture_root(node: AskedNode, tmp_path: Path) -> Path:
    write_tree(machine_snapshot(MACHINE), str(tmp_path))
    unified(tmp_path, f"kubepods/podx/{node.id_of('db')}")
    return tmp_path


def test_the_table_has_grants_and_usage_side_by_side(node: AskedNode, root: Path) -> None:
    run = top(node, root)
    assert run.exit_code == 0, run.output
    rows = [re.split("  +", line.strip()) for line in run.output.splitlines()]
    assert rows[0] == ["pool", "use", "cpus", "granted", "used", "throttled", "waiting"]
    head = next(row for row in rows if row[0] == "container")
    assert head[3:] == ["granted", "used", "throttled", "waiting", "memory", "remote"]
    by_name = {row[0]: dict(zip(head, row, strict=True)) for row in rows if "/" in row[0]}
    db, side = by_name["default/db/db"], by_name["default/side/side"]
    assert (db["granted"], db["used"], db["throttled"], db["waiting"]) == (
        "2000m",
        "0m",
        "0%",
        "0%",
    )
    assert (side["used"], side["memory"], side["remote"]) == ("?", "?", "?")


def test_the_document_is_for_tools(node: AskedNode, root: Path) -> None:
    found = json.loads(top(node, root, "-o", "json").output)
    assert list(found) == ["containers", "pools", "seconds"]
    assert {one["container"]: one["used_milli"] for one in found["containers"]} == {
        "default/db/db": 0,
        "default/side/side": None,
    }


@pytest.mark.parametrize("command", ["top", "status"])
def test_what_is_watched_is_shown_until_it_is_interrupted(
    node: AskedNode, root: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    def watched(look: object, pause_seconds: float = watch_option.PAUSE_SECONDS) -> None:
        watch(look, pause_seconds, sleep)  # type: ignore[arg-type]

    monkeypatch.setattr(f"pinfold.cmd.commands.node.{command}.watch", watched)
    more = [f"--sysfs-root={root}", "--seconds=0.05"] if command == "top" else []
    run = CliRunner().invoke(main, [command, "--watch", f"--control={node.path}", *more])
    assert run.exit_code == 0, run.output
    assert run.output.count("default/db/db") == len(looks) == 2, "in a pipe each look is shown"

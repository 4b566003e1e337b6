"""`pinfold gather`: a bundle of a node, and the commands that look into it elsewhere."""

import json
import tarfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.commands.bundle.support_bundle import BundleError, read_bundle
from pinfold.cmd.pinfold import main
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

from ..control.history.test_history_keeper import MACHINE, MADE, KeptNode
from ..daemon.paper_node import burstable, guaranteed

LATE = """
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  containers: [{name: late, resources: {limits: {cpu: 2, memory: 1G}}}]
"""


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[KeptNode]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    node = KeptNode(folder)
    node.start()
    secret = replace(guaranteed("db", 2000), annotations={"vault.example/token": "hunter2"})
    node.run(burstable("side", 100), secret)
    node.refusal(guaranteed("vast", 9000))
    node.settle()
    # The decisions are written by then.
    node.restart()
    yield node
    node.stop()


@pytest.fixture(name="bundle")
def fixture_bundle(node: KeptNode, tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    write_tree(machine_snapshot(MACHINE), str(root))
    file = tmp_path / "node.tar.xz"
    run = pinfold(
        "gather",
        str(file),
        f"--control={node.state_dir / 'control.sock'}",
        f"--state-dir={node.state_dir}",
        f"--sysfs-root={root}",
    )
    assert run.exit_code == 0, run.output
    assert "left out: metrics: not served" in run.output
    assert f"{file}: 8 cpus, " in run.output
    return file


def pinfold(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def document(run: Result) -> Any:
    assert run.exit_code == 0, run.output
    return json.loads(run.stdout)


def test_a_bundle_has_what_the_daemon_has_and_no_secrets(bundle: Path) -> None:
    with tarfile.open(bundle) as archive:
        names = {name for name in archive.getnames() if name.startswith("pinfold/")}
        texts = {name: read_bundle(bundle, name.removeprefix("pinfold/")) for name in names}
    assert {name.removeprefix("pinfold/") for name in names} == {
        *("status.json", "audit.json", "state.json", "config.yaml", "explanations.json"),
        *("decisions.jsonl", "versions.json", "missing.txt"),
    }
    assert b"hunter2" not in b"".join(texts.values())
    assert b"default/db/db" in texts["pinfold/status.json"]
    assert json.loads(texts["pinfold/versions.json"])["runtime"]["kind"] == "embedded"
    assert "not served" in texts["pinfold/missing.txt"].decode()


def test_simulate_goes_on_from_a_bundle_with_its_machine(
    node: KeptNode, bundle: Path, tmp_path: Path
) -> None:
    pods = tmp_path / "late.yaml"
    pods.write_text(LATE)
    (found,) = document(pinfold("simulate", f"--state={bundle}", str(pods), "-o", "json"))[
        "scenarios"
    ]
    (added,) = found["diff"]["added"]
    node.run(guaranteed("late", 2000, 10**9))
    assert added["to"]["cpus"] == node.cpus("late")


def test_explain_reads_a_bundle(node: KeptNode, bundle: Path) -> None:
    from_daemon = node.client.explain("db")
    run = pinfold("explain", "db", f"--bundle={bundle}", "-o", "json")
    assert document(run)["candidates"] == [
        {"pool": one.pool, "rank": one.rank, "dropped": None} for one in from_daemon.candidates
    ]
    run = pinfold("explain", "nobody", f"--bundle={bundle}")
    assert run.exit_code == 2
    assert run.output == (
        "container: 'nobody' is not in the bundle — name one: default/db/db, default/side/side,"
        " default/vast/vast\n"
    )
    run = pinfold("explain", "vast", f"--bundle={bundle}")
    assert run.stdout.startswith("default/vast/vast was refused at ")


def test_other_commands_read_it_as_they_read_a_state(bundle: Path) -> None:
    assert "no move is worth it" in pinfold("rebalance", f"--state={bundle}").output
    run = pinfold("replay", f"--state={bundle}")
    assert run.output == "as it was: 3, elsewhere: 0, refused now: 0, granted now: 0\n"
    assert document(pinfold("topology", f"--sysfs-root={bundle}", "-o", "json"))["online_cpus"] == (
        "0-7"
    )


def test_a_made_up_machine_is_known_from_the_state_in_a_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    node = KeptNode(folder, MADE)
    node.start()
    node.run(guaranteed("db", 2000))
    file, control = tmp_path / "node.tar.xz", folder / "control.sock"
    run = pinfold("gather", str(file), f"--control={control}", f"--state-dir={folder}")
    node.stop()
    assert "the daemon's machine" not in run.output
    assert "no move is worth it" in pinfold("rebalance", f"--state={file}").output


def test_a_machine_that_is_not_the_daemons_is_told_of(node: KeptNode, tmp_path: Path) -> None:
    run = pinfold(
        "gather",
        str(tmp_path / "node.tar"),
        f"--control={node.state_dir / 'control.sock'}",
        f"--state-dir={node.state_dir}",
    )
    assert "left out: the daemon's machine (cpus 0-7, " in run.output
    assert "name that one with --sysfs-root" in run.output


def test_decisions_that_are_kept_elsewhere_are_told_of(node: KeptNode, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    run = pinfold(
        "gather",
        str(tmp_path / "node.tar"),
        f"--control={node.state_dir / 'control.sock'}",
        f"--state-dir={place}",
    )
    assert run.exit_code == 0
    assert (
        f"left out: decisions: no decisions.jsonl in {place} — name the daemon's folder with"
        " --state-dir\n"
    ) in run.output


def test_without_a_daemon_a_bundle_has_the_machine_at_least(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    write_tree(machine_snapshot(MACHINE), str(root))
    file = tmp_path / "node.tar"
    run = pinfold(
        "gather", str(file), f"--control={tmp_path / 'none'}", f"--sysfs-root={root}",
        f"--state-dir={tmp_path}",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert "left out: the daemon's answers: " in run.output
    run = pinfold("simulate", f"--state={file}")
    assert run.exit_code == 2
    assert "has no state.json — name a bundle that 'pinfold gather' wrote" in run.output


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "no such file or directory — name a bundle", id="no file"),
        pytest.param(
            b"no archive",
            r"x.tar.xz: not a readable archive \([^\n]*[^:]\) — gather it anew$",
            id="no archive, in one line",
        ),
    ],
)
def test_what_is_no_bundle_is_said(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "x.tar.xz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BundleError, match=complaint):
        read_bundle(file, "state.json")

"""The shell completes names of containers and pods of the running daemon."""

import socket
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from pinfold.cmd.pinfold import main
from pinfold.policy.manifests.manifest import parse_manifests

from ..control.asked_node import AskedNode

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec: {containers: [{name: db}, {name: web}]}
---
apiVersion: v1
kind: Pod
metadata: {name: shelf, namespace: store}
spec: {containers: [{name: web}, {name: "a b"}, {name: "x$(id)"}]}
"""


@pytest.fixture(name="node", scope="module")
def fixture_node(tmp_path_factory: pytest.TempPathFactory) -> Generator[AskedNode]:
    node = AskedNode(tmp_path_factory.mktemp("node"))
    node.start()
    node.run(*parse_manifests(PODS, "pods.yaml"))
    # Who asks first has gRPC loaded, for which a prompt has no patience where others are at work.
    node.client.status()
    yield node
    node.stop()


def completed(path: Path, command: str, incomplete: str, *more: str) -> list[str]:
    shell = ShellComplete(main, {}, "pinfold", "_PINFOLD_COMPLETE")
    found = shell.get_completions([command, f"--control={path}", *more], incomplete)
    return [one.value for one in found]


@pytest.mark.parametrize(
    ("command", "incomplete", "expected"),
    [
        ("explain", "", ["default/shop/db", "default/shop/web", "store/shelf/web"]),
        ("explain", "default/shop/w", ["default/shop/web"]),
        ("explain", "sh", ["shelf/web", "shop/db", "shop/web"]),
        ("explain", "d", ["db", "default/shop/db", "default/shop/web"]),
        ("explain", "we", ["web"]),
        ("explain", "nothing", []),
        ("describe", "", ["default/shop", "store/shelf"]),
        ("describe", "sh", ["shelf", "shop"]),
        ("describe", "store/", ["store/shelf"]),
    ],
)
def test_names_are_completed_from_any_part(
    node: AskedNode, command: str, incomplete: str, expected: list[str]
) -> None:
    assert completed(node.path, command, incomplete) == expected


def test_a_daemon_that_is_away_completes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(tmp_path / "none.sock", "explain", "we") == []
    assert capsys.readouterr() == ("", "")


def test_a_daemon_that_says_nothing_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        begin = time.monotonic()
        assert completed(path, "explain", "we") == []
    # A machine may be busy; twenty seconds is what a command would wait.
    assert time.monotonic() - begin < 10
    assert capsys.readouterr() == ("", "")


def test_a_bundle_has_no_daemon_to_ask(node: AskedNode) -> None:
    assert completed(node.path, "explain", "we", "--bundle=node.tar") == []

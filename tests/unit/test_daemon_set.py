"""The manifest that runs the daemon on every node says what the program, and its image, have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pinfold.cmd.control.control_socket import USUAL_PLACES
from pinfold.cmd.pinfoldd import command
from pinfold.cmd.report.version import VERSION
from pinfold.nri.hints.pod_resources import KUBELET_SOCKET
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import read_config

ROOT = Path(__file__).parents[2]
CONFIG_MAP, DAEMON_SET = yaml.safe_load_all((ROOT / "configs/kubernetes/pinfold.yaml").read_text())
SPEC: dict[str, Any] = DAEMON_SET["spec"]["template"]["spec"]
(CONTAINER,) = SPEC["containers"]
MOUNTS = {one["mountPath"]: one["name"] for one in CONTAINER["volumeMounts"]}
VOLUMES = {one["name"]: one for one in SPEC["volumes"]}


def config() -> Config:
    return read_config(CONFIG_MAP["data"]["pinfold.yaml"]).config


def options() -> dict[str, Any]:
    """What the program makes of its arguments."""
    return command.make_context("pinfoldd", list(CONTAINER["args"])).params


def test_the_image_is_of_this_version() -> None:
    assert CONTAINER["image"].rpartition(":")[2] == VERSION


def test_the_configuration_is_where_the_program_is_told_to_look() -> None:
    folder, _, name = str(options()["config_path"]).rpartition("/")
    assert name in CONFIG_MAP["data"]
    assert VOLUMES[MOUNTS[folder]]["configMap"]["name"] == CONFIG_MAP["metadata"]["name"]


def test_the_state_outlives_the_pod() -> None:
    assert "hostPath" in VOLUMES[MOUNTS[str(options()["state_dir"])]]


def test_the_command_finds_the_daemon_without_an_option() -> None:
    assert Path(str(options()["control"])) in USUAL_PLACES
    assert str(USUAL_PLACES[0].parent) in MOUNTS


@pytest.mark.parametrize("socket", [options()["nri_socket"], KUBELET_SOCKET])
def test_sockets_are_seen_at_their_places_also_when_they_are_made_anew(socket: str) -> None:
    folder = str(Path(socket).parent)
    assert VOLUMES[MOUNTS[folder]]["hostPath"]["path"] == folder


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probes_ask_where_the_daemon_serves(probe: str) -> None:
    asked = CONTAINER[probe]["httpGet"]
    assert f"{asked['host']}:{asked['port']}" == config().instrumentation.http_endpoint
    # The kubelet asks the host's loopback.
    assert SPEC["hostNetwork"]


def test_its_selector_finds_its_pods() -> None:
    labels = DAEMON_SET["spec"]["template"]["metadata"]["labels"]
    assert DAEMON_SET["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_volumes_and_mounts_go_in_pairs() -> None:
    assert sorted(MOUNTS.values()) == sorted(VOLUMES)

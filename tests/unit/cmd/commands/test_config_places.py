"""Faults of a configuration that only a machine shows: told with the file and the line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.cmd.pinfoldd import command as daemon

SPEC = "socket:2 numa:2 core:2 thread:2 mem:2G"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: b}]}\n"


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "pinfold.yaml"
    path.write_text("reservedResources: {cpu: 1}\n")
    drop_ins = tmp_path / "pinfold.yaml.d"
    drop_ins.mkdir()
    (drop_ins / "10-more.yaml").write_text(
        "pinMemory: true\navailableResources:\n  cpu: cpuset:40-50\n"
    )
    return str(path)


@pytest.mark.parametrize("words", [["pools"], ["demo"], ["lint", "pod.yaml"]], ids=lambda it: it[0])
def test_a_command_says_where_the_field_is(
    words: list[str], config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)
    result = CliRunner().invoke(main, [*words, "--machine", SPEC, "--config", config])
    assert result.exit_code == 2
    assert result.stderr == (
        f"{config}.d/10-more.yaml:3:3: availableResources.cpu: 'cpuset:40-50' leaves no cpu"
        " — online are 0-15, name some of them\n"
    )


def test_a_simulation_says_where_the_field_is(config: str, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    words = ["simulate", str(tmp_path / "pod.yaml"), "--machine", SPEC, "--config", config]
    result = CliRunner().invoke(main, [*words, "-o", "json"])
    assert result.exit_code == 1
    where = f"{config}.d/10-more.yaml:3:3: availableResources.cpu: "
    assert f"start_error: {where}" in result.stdout


def test_the_daemon_says_where_the_field_is_and_does_not_start(config: str) -> None:
    options = ["--runtime", "embedded", "--machine", SPEC, "--config", config]
    result = CliRunner().invoke(daemon, options)
    assert result.exit_code == 2
    assert f"{config}.d/10-more.yaml:3:3: availableResources.cpu: " in result.stderr


def test_a_warning_says_where_the_field_is(tmp_path: Path) -> None:
    path = tmp_path / "pinfold.yaml"
    path.write_text("pinCPU: true\navailableResources: {cpu: 'cpuset:0-3,77'}\n")
    result = CliRunner().invoke(main, ["pools", "--machine", SPEC, "--config", str(path)])
    assert result.exit_code == 0
    assert f"warning: {path}:2:22: availableResources.cpu: cpus 77 of" in result.stdout

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

import pytest
from click.testing import CliRunner

from pinfold.cmd.daemon.config_file import (
    MAX_BYTES,
    ConfigFileError,
    LoadedConfig,
    load_config,
    read_file,
    read_input,
)
from pinfold.cmd.pinfold import main
from pinfold.policy.configuration.config import Config
from pinfold.policy.text.errors import ConfigError

from ..commands.piped_text import piped


def load(folder: Path, **options: object) -> LoadedConfig:
    environment = {str(name): str(value) for name, value in options.items()}
    return load_usual(folder / "pinfold.yaml", folder / "conf.d", environment)


def load_usual(path: Path, drop_ins: Path, environment: Mapping[str, str]) -> LoadedConfig:
    """What is loaded where no file is named, and these are the usual places."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pinfold.cmd.daemon.config_file.DEFAULT_PATH", path)
        patch.setattr("pinfold.cmd.daemon.config_file.DEFAULT_DROP_INS", drop_ins)
        return load_config(environment=environment)


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path) == LoadedConfig(config=Config())


def test_later_sources_win_field_by_field(tmp_path: Path) -> None:
    (tmp_path / "pinfold.yaml").write_text("reservedResources: {cpu: 2}\ncolocatePods: true\n")
    drop_ins = tmp_path / "conf.d"
    drop_ins.mkdir()
    (drop_ins / "20-more.yaml").write_text("reservedResources: {cpu: 4}\n")
    (drop_ins / "10-first.yaml").write_text("reservedResources: {cpu: 3}\npinMemory: false\n")
    (drop_ins / ".hidden.yaml").write_text("pinCPU: false\n")
    loaded = load(tmp_path)
    assert loaded.config.reserved_resources.cpu == "4"
    assert loaded.config.colocate_pods
    assert not loaded.config.pin_memory
    assert loaded.config.pin_cpu
    assert [source.name for source in loaded.sources] == [
        "pinfold.yaml",
        "10-first.yaml",
        "20-more.yaml",
    ]
    assert load(tmp_path, PINFOLD_RESERVED_RESOURCES__CPU="5").config.reserved_resources.cpu == "5"


def test_a_named_file_has_its_own_folder_of_drop_ins(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("pinCPU: false\n")
    (tmp_path / "node.yaml.d").mkdir()
    (tmp_path / "node.yaml.d" / "a.yaml").write_text("pinMemory: false\n")
    loaded = load_config(path, settings=["pinCPU=true"])
    assert loaded.config == Config(pin_memory=False)


def test_a_drop_in_with_another_ending_is_told(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.yml").write_text("pinCPU: false\n")
    loaded = load(tmp_path)
    assert loaded.config == Config()
    assert loaded.warnings == (f"{tmp_path}/conf.d/a.yml: passed over — rename it to a.yaml",)


def test_a_variable_that_misses_its_field_is_told(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        PINFOLD_RESERVED_RESOURCES_CPU="2",
        PINFOLD_SERVICE_HOST="10.0.0.1",
        PINFOLD_PORT_8891_TCP="tcp://10.0.0.1:8891",
        PINFOLD_METRICS_SERVICE_PORT_HTTP="8891",
        PINFOLD_CACHE="/var/cache",
        PINFOLD_FROG="1",
        PINFOLD_PIN_CPU="true",
    )
    assert loaded.config == Config()
    assert loaded.warnings == (
        "PINFOLD_FROG: sets no field — unset it",
        "PINFOLD_RESERVED_RESOURCES_CPU: sets no field"
        " — did you mean 'PINFOLD_RESERVED_RESOURCES__CPU'?",
    )


def test_a_fault_names_the_file_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.yaml").write_text("\npinCPU: perhaps\n")
    with pytest.raises(ConfigError, match=r"conf\.d/a\.yaml:2:1: pinCPU: 'perhaps'"):
        load(tmp_path)


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"none\.yaml: No such file"):
        load_config(tmp_path / "none.yaml")


def test_a_drop_in_that_cannot_be_read_hides_no_fault_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("pinCPU: 3\nagent: 3\n")
    (tmp_path / "a.yaml.d").mkdir()
    (tmp_path / "a.yaml.d" / "10.yaml").write_bytes(b"\xff")
    with pytest.raises(ConfigFileError) as raised:
        load_config(path, environment={"PINFOLD_PIN_MEMORY": "sure"})
    assert [line.partition(": ")[0] for line in str(raised.value).splitlines()] == [
        f"{path}:1:1",
        f"{path}:2:1",
        f"{path}.d/10.yaml",
        "PINFOLD_PIN_MEMORY",
    ]


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"pinCPU: \xff\n")
    with pytest.raises(ConfigFileError, match=r"a\.yaml: not UTF-8 at byte 8"):
        load_config(path)


@pytest.mark.parametrize(
    ("text", "status", "output", "complaint"),
    [
        pytest.param("pinCPU: false\n", 0, "{file}: good\n", "", id="a good file"),
        pytest.param("pinCPUs: 1\n", 1, "", "{file}:1:1: pinCPUs: unknown field", id="faults"),
        pytest.param(None, 2, "", "{file}: No such file", id="no file"),
        pytest.param(
            "control: {rdt: {force: true}}",
            0,
            "{file}: good\n",
            "warning: {file}:1:17: control.rdt.force",
            id="a field without effect",
        ),
        pytest.param(
            "rules: [{name: a, match: {}, annotations: {smt.pinfold.dev: spred}}]",
            1,
            "",
            "{file}:1:44: rules[0].annotations: smt.pinfold.dev: unknown use of threads 'spred'",
            id="an annotation in a rule that cannot be read",
        ),
        pytest.param(
            "rules: [{name: a, match: {expression: {key: k, operator: Equls, values: [x]}},"
            " annotations: {smt.pinfold.dev: spread}}]",
            1,
            "",
            "{file}:1:27: rules[0].match.expression: unknown operator 'Equls'",
            id="an expression in a rule that cannot be read",
        ),
    ],
)
def test_check_tells_in_words_and_status(
    tmp_path: Path, text: str | None, status: int, output: str, complaint: str
) -> None:
    file = tmp_path / "pinfold.yaml"
    if text is not None:
        file.write_text(text)
    result = CliRunner().invoke(main, ["config", "check", str(file)])
    assert result.exit_code == status
    assert result.stdout == output.format(file=file)
    assert result.stderr.startswith(complaint.format(file=file))


@pytest.mark.parametrize(
    ("text", "status", "complaint"),
    [
        pytest.param(
            "poolLabels: [{pool: 'NUMA node #2', labels: {nic: fast}}]",
            0,
            "warning: {file}:1:15: poolLabels[0].pool: no pool of this machine is called"
            " 'NUMA node #2' — did you mean 'NUMA node #1'? 'pinfold pools' prints their names\n",
            id="labels for a pool that the machine does not have",
        ),
        pytest.param(
            "poolLabels: [{pool: 'NUMA node #1', labels: {nic: fast}}]",
            0,
            "",
            id="labels for a pool that it has",
        ),
        pytest.param(
            "reservedResources: {cpu: 20}",
            1,
            "{file}:1:21: reservedResources.cpu: '20' reserves 20 cpus of 8 usable ones (0-7)",
            id="more cpus reserved than there are",
        ),
    ],
)
def test_check_on_a_machine_tells_what_that_cannot_have(
    tmp_path: Path, text: str, status: int, complaint: str
) -> None:
    file = tmp_path / "pinfold.yaml"
    file.write_text(text)
    machine = ("--machine", "numa:2 core:4 mem:1G")
    result = CliRunner().invoke(main, ["config", "check", str(file), *machine])
    assert result.exit_code == status, result.output
    assert result.stderr.startswith(complaint.format(file=file))
    assert bool(result.stderr) is bool(complaint)


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    bad.write_text("pinCPU: 3\n")
    good.write_text("")
    result = CliRunner().invoke(main, ["config", "check", str(bad), str(good)])
    assert result.exit_code == 1
    assert result.stdout == f"{good}: good\n"


def test_effective_fills_in_defaults_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "pinfold.yaml"
    file.write_text("colocatePods: true\n")
    shown = CliRunner().invoke(
        main, ["config", "effective", "--config", str(file), "--set", "reservedResources.cpu=750m"]
    )
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"# {file}\n")
    (tmp_path / "again.yaml").write_text(shown.stdout)
    again = load_config(tmp_path / "again.yaml").config
    assert again.colocate_pods
    assert again.reserved_resources.cpu == "750m"
    as_json = CliRunner().invoke(main, ["config", "effective", "--config", str(file), "-o", "json"])
    assert json.loads(as_json.stdout)["colocatePods"] is True


def test_effective_of_a_bad_file_is_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "pinfold.yaml"
    file.write_text("colocatePods: perhaps\n")
    result = CliRunner().invoke(main, ["config", "effective", "--config", str(file)])
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize("closed", ["pinfold.yaml", "conf.d"])
def test_a_usual_place_that_cannot_be_looked_at_is_not_taken_for_absent(
    tmp_path: Path, closed: str
) -> None:
    places = {name: tmp_path / name for name in ("pinfold.yaml", "conf.d")}
    # As below a folder that is closed, which root does not know.
    places[closed] = tmp_path / ("a" * 300)
    with pytest.raises(ConfigFileError, match="File name too long — make it readable"):
        load_usual(places["pinfold.yaml"], places["conf.d"], {})


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigFileError, match="not a regular file — name a readable file"):
            read_file(path)


def test_the_null_device_is_an_empty_configuration() -> None:
    assert load_config(Path("/dev/null")).config == Config()


def test_a_configuration_may_come_out_of_a_pipe_where_its_reader_can_wait() -> None:
    with subprocess.Popen(["echo", "pinCPU: false"], stdout=PIPE) as one:
        assert one.stdout is not None
        path = Path(f"/dev/fd/{one.stdout.fileno()}")
        assert not load_config(path, may_be_pipe=True).config.pin_cpu


def test_a_pipe_that_a_shell_made_of_a_command_is_read_to_its_end() -> None:
    text = "# a comment\n" * 5000
    with subprocess.Popen([sys.executable, "-c", f"print({text!r}, end='')"], stdout=PIPE) as one:
        assert one.stdout is not None
        assert read_input(f"/dev/fd/{one.stdout.fileno()}") == text


def test_the_configuration_in_effect_may_be_that_of_a_pipe() -> None:
    with piped("pinCPU: false\n") as name:
        shown = CliRunner().invoke(main, ["config", "effective", "--config", name])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(f"# {name}\n")
    assert "pinCPU: false\n" in shown.output


def test_a_pipe_that_nobody_writes_to_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_input(str(tmp_path / "pipe")) == ""


def test_an_input_that_is_a_device_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in ("/dev/zero", str(tmp_path)):
        with pytest.raises(ConfigFileError, match="— name a readable file"):
            read_input(path)


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigFileError, match="more than 64 MiB"):
        read_file(path)

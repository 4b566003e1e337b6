"""Plugins are driven from the runtime's end of a socket, and shown beside the floor."""

import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from tests.bench.figure import FLOOR_METRICS, METRICS, NAMES, Record
from tests.bench.plugins.comparison import HEADER, comparison, multiple
from tests.bench.plugins.floor_plugin import serve
from tests.bench.plugins.plugin_command import (
    Place,
    PluginCommand,
    PluginCommandError,
    floor_command,
    parse_plugin,
    pinfold_command,
)
from tests.bench.plugins.plugin_process import PluginEndedError, PluginProcess
from tests.bench.plugins.samples import Samples, figure_name, floor_figures
from tests.bench.plugins.socket_rounds import measure_plugins
from tests.bench.sizes import LARGE, MEDIUM, SIZES, SMALL, WIDE

TINY = replace(SMALL, containers=8)
PLACE = Place(socket=Path("/a b/s"), root=Path("/r"), scratch=Path("/x"), port=7)


def test_placeholders_are_filled_in_word_by_word() -> None:
    plugin = parse_plugin("go=/bin/p --socket={socket} '{root}/sys' {scratch}/log :{port}")
    assert plugin.name == "go"
    assert plugin.words_at(PLACE) == ["/bin/p", "--socket=/a b/s", "/r/sys", "/x/log", ":7"]


def test_a_plugin_runs_as_it_would_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PINFOLD_LOG", "STATE_DIRECTORY", "PYTHONDONTWRITEBYTECODE", "OTHER"):
        monkeypatch.setenv(name, f"{name} is set")
    place = replace(PLACE, socket=tmp_path / "socket", scratch=tmp_path)
    process = PluginProcess(PluginCommand("env", ("env",)), place)
    with pytest.raises(PluginEndedError):
        process.start()
    told = process.log.read_text(encoding="utf-8").splitlines()
    assert [line for line in told if line.endswith(" is set")] == ["OTHER=OTHER is set"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("/bin/p {socket}", "write NAME=COMMAND", id="no name"),
        pytest.param("a b=/bin/p {socket}", "write NAME=COMMAND", id="a name of two words"),
        pytest.param("floor=/bin/p {socket}", "take another name", id="a name that is taken"),
        pytest.param("go=", "there is no command", id="no command"),
        pytest.param("go='p {socket}", "no closing quotation", id="an open quote"),
        pytest.param("go=/bin/p", "write {socket} where", id="a command that cannot connect"),
    ],
)
def test_plugins_that_cannot_be_run_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(PluginCommandError, match=complaint):
        parse_plugin(text)


def test_every_figure_of_the_project_has_its_name_in_the_list() -> None:
    ours = {figure_name("pinfold", metric, size.name) for metric in METRICS for size in SIZES}
    floors = {figure_name("floor", metric, "small") for metric in FLOOR_METRICS}
    assert ours | floors <= set(NAMES)
    assert {"create-wide", "cpu-turnover-large", "rss-small", "floor-create"} <= ours | floors
    assert figure_name("go", "stop", "wide") == "go-stop-wide"


def test_sizes_are_the_machines_that_the_goals_are_for() -> None:
    found = [
        (size.name, len(size.machine.online), len(size.machine.numa_nodes), size.containers)
        for size in (SMALL, MEDIUM, WIDE, LARGE)
    ]
    assert found == [
        ("small", 16, 4, 50),
        ("medium", 256, 16, 300),
        ("wide", 2048, 32, 600),
        ("large", 4096, 64, 1000),
    ]


def test_the_goals_are_the_same_whatever_rules_are_made_of() -> None:
    measured = {"pinfold": {"create": record("ms", 0.5, 1)}}
    rows = [list(comparison(name, measured)) for name in ("small", "small-required")]
    assert rows[0] == rows[1]
    assert "<= 3 x floor" in rows[0][0]


def record(unit: str, p50: float, p99: float) -> Record:
    return Record(name="", size="", unit=unit, p50=p50, p99=p99, n=1)


def test_rows_show_multiples_of_the_floor_and_the_goal() -> None:
    measured = {
        "floor": {"create": record("ms", 0.2, 0.4), "rss": record("MiB", 17, 17)},
        "pinfold": {"create": record("ms", 0.5, 1), "rss": record("MiB", 30, 31)},
    }
    assert [" ".join(line.split()) for line in (HEADER, *comparison("small", measured))] == [
        "p50 p99 x floor p99/p50 goal",
        "create ms floor 0.200 0.400 1.0 2.0",
        "create ms pinfold 0.500 1.000 2.5 2.0 <= 3 x floor; p99 <= 3 x p50",
        "rss MiB pinfold 30.000 31.000 <= 32 MiB",
    ]


def test_nothing_is_a_multiple_of_nothing() -> None:
    assert (multiple(3, 2), multiple(3, 0)) == ("1.5", "-")


def test_the_floor_of_all_sizes_is_one_figure() -> None:
    small = Samples("floor", SMALL, times={"create": [1_000_000]}, amounts={"rss": [17.0]})
    large = Samples("floor", LARGE, times={"create": [3_000_000, 5_000_000]})
    other = Samples("pinfold", LARGE, times={"create": [9_000_000]})
    figures = [one.record() for one in floor_figures([small, other, large])]
    assert [(one.name, one.p50, one.p99, one.n) for one in figures] == [
        ("floor-create", 3.0, 5.0, 3),
        ("floor-rss", 17.0, 17.0, 1),
    ]


def test_the_floor_gives_every_container_the_same_cpus() -> None:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    runtime = EmbeddedRuntime()
    runtime.serve(ours)
    assert runtime.wait_until_synchronized(10)
    pod = PodSpec(name="p", containers=(ContainerSpec(name="a"), ContainerSpec(name="b")))
    assert start_pods(runtime, [pod], None) == []
    first, second = runtime.containers
    runtime.update_cpuset(first, "1", "")
    runtime.remove(first)
    assert runtime.kernel[second].cpus == "0-3"
    assert runtime.wait_until_synchronized(0)
    runtime.drop()
    thread.join()
    theirs.close()


def test_plugins_in_turns_give_a_figure_for_everything() -> None:
    other = PluginCommand("other", floor_command().words)
    found = measure_plugins(TINY, [floor_command(), pinfold_command(), other], 2, 1)
    assert [samples.plugin for samples in found] == ["floor", "pinfold", "other"]
    for samples in found:
        is_floor = samples.plugin == "floor"
        assert tuple(samples.records()) == (FLOOR_METRICS if is_floor else METRICS)
        assert (len(samples.times["create"]), len(samples.times["stop"])) == (2, 2)
        assert samples.refusals == 0
    assert found[1].scrapes > 0, "no metrics were read"
    assert found[1].records()["written"].p50 > 0, "neither a log nor a state file"


def test_a_plugin_that_ends_is_left_out_with_the_end_of_its_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = "import sys; sys.exit('too many NUMA nodes')"
    ending = PluginCommand("go", (sys.executable, "-c", program, "{socket}"))
    found = measure_plugins(TINY, [floor_command(), ending], 1, 1)
    assert [samples.plugin for samples in found] == ["floor"]
    told = capsys.readouterr().err
    assert "go: left out: go ended with status 1" in told
    assert "too many NUMA nodes" in told


def test_a_floor_that_ends_is_an_error() -> None:
    ending = PluginCommand("floor", (sys.executable, "-c", "", "{socket}"))
    with pytest.raises(PluginEndedError, match="floor ended with status 0"):
        measure_plugins(TINY, [ending], 1, 1)


@pytest.mark.parametrize("turnovers", [2, 3, 5])
def test_cpu_is_measured_with_metrics_read_and_with_nobody_reading_them(turnovers: int) -> None:
    (samples,) = measure_plugins(TINY, [floor_command()], turnovers, 0)
    assert len(samples.times["stop"]) == turnovers
    assert samples.times["cpu-turnover"]
    assert samples.times["cpu-turnover-read"]

"""Classes of cpus through a running daemon: the clocks of a generated machine follow containers."""

import dataclasses
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest

from pinfold.cmd.kernel.tuner import Tuner, tuner_below
from pinfold.policy.configuration.config import Config
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from pinfold.topology.sysfs.discovery import read_machine
from tests.unit.cmd.daemon.paper_node import LOG, PaperNode, config, guaranteed
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

CPUS = "sys/devices/system/cpu"
LOW, BASE, TURBO, FASTEST = 800_000, 2_900_000, 3_800_000, 4_200_000
FAST_CPUS = CpuSet.parse("6-7")
FOUND = {
    "scaling_governor": "schedutil",
    "scaling_min_freq": str(LOW),
    "scaling_max_freq": str(TURBO),
}

CLASSES = [
    {"name": "calm", "minFreq": "min", "maxFreq": "base", "freqGovernor": "powersave"},
    {"name": "mid", "minFreq": "turbo", "maxFreq": "turbo", "turboPriority": 1},
    {
        **{"name": "top", "minFreq": "base", "maxFreq": "turbo", "turboPriority": 2},
        "freqGovernor": "performance",
    },
    {"name": "fast", "maxFreq": "4.2GHz"},
]


def classes(**fields: object) -> Config:
    return config(cpuClasses=CLASSES, sharedPoolCPUClass="calm", **fields)


class Node(PaperNode):
    """A node whose daemon sets clocks below a folder."""

    def __init__(self, root: Path, settings: Config) -> None:
        self.root = root
        self.tuner: Tuner = tuner_below(root, None, LOG)
        super().__init__(read_machine(str(root)), settings, reports=(self.tuner,))
        self.tuner.start(self.daemon.front)

    def stop(self) -> None:
        self.tuner.stop()
        super().stop()

    def read(self, name: str) -> dict[int, str]:
        """What a file of every cpu's clock holds."""
        cpus = self.machine.online
        return {one: (self.root / f"{CPUS}/cpu{one}/cpufreq/{name}").read_text() for one in cpus}

    def cpus_with(self, name: str, text: int | str) -> str:
        """The cpus whose file holds exactly this."""
        return str(
            CpuSet.collect(one for one, held in self.read(name).items() if held == str(text))
        )


Run = Callable[..., Node]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Generator[Run]:
    """Runs a daemon on a machine whose cpus 6 and 7 are faster than the others."""
    running: list[Node] = []

    def run(spec: str, settings: Config | None = None) -> Node:
        plain = machine_from_spec(spec)
        cpus = {
            one: dataclasses.replace(
                cpu,
                min_khz=LOW,
                base_khz=BASE,
                max_khz=FASTEST if one in FAST_CPUS else TURBO,
            )
            for one, cpu in plain.cpus.items()
        }
        root = tmp_path / "root"
        root.mkdir()
        write_tree(machine_snapshot(dataclasses.replace(plain, cpus=cpus)), str(root))
        for cpu in plain.online:
            for name, text in FOUND.items():
                (root / f"{CPUS}/cpu{cpu}/cpufreq/{name}").write_text(text)
        running.append(Node(root, settings or classes()))
        running[-1].start()
        return running[-1]

    yield run
    for node in running:
        node.stop()


def eventually(what: Callable[[], str], expected: str) -> None:
    """The kernel's files change in the daemon's own time: nobody tells when."""
    deadline = time.monotonic() + 10
    while (found := what()) != expected:
        assert time.monotonic() < deadline, f"{found!r}, never {expected!r}"
        time.sleep(0.01)


def test_clocks_follow_a_container_and_go_back(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G")
    eventually(lambda: node.cpus_with("scaling_max_freq", BASE), "0-7")
    assert node.cpus_with("scaling_governor", "powersave") == "0-7"
    node.run(guaranteed("a", 2000, cpu_class="top"))
    assert node.cpus("a") == "1-2"
    eventually(lambda: node.cpus_with("scaling_max_freq", TURBO), "1-2")
    eventually(lambda: node.cpus_with("scaling_min_freq", BASE), "1-2")
    assert node.cpus_with("scaling_governor", "performance") == "1-2"
    node.remove("a")
    eventually(lambda: node.cpus_with("scaling_governor", "powersave"), "0-7")
    eventually(lambda: node.cpus_with("scaling_min_freq", LOW), "0-7")
    node.tuner.stop()
    assert {name: set(node.read(name).values()) for name in FOUND} == {
        name: {text} for name, text in FOUND.items()
    }


def test_a_higher_class_takes_turbo_away_and_gives_it_back(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G")
    node.run(guaranteed("first", 2000, cpu_class="mid"))
    eventually(lambda: node.cpus_with("scaling_min_freq", TURBO), "1-2")
    node.run(guaranteed("second", 2000, cpu_class="top"))
    eventually(lambda: node.cpus_with("scaling_max_freq", TURBO), "3-4")
    eventually(lambda: node.cpus_with("scaling_min_freq", BASE), "1-4")
    node.remove("second")
    eventually(lambda: node.cpus_with("scaling_max_freq", TURBO), "1-2")
    eventually(lambda: node.cpus_with("scaling_min_freq", TURBO), "1-2")


def test_classes_that_compete_for_turbo_keep_to_different_sockets(run: Run) -> None:
    node = run("socket:2 core:8 mem:8G")
    homes = {"mid-1": "mid", "top-1": "top", "top-2": "top", "mid-2": "mid", "mid-3": "mid"}
    for name, cpu_class in homes.items():
        node.run(guaranteed(name, 2000, cpu_class=cpu_class))
    sockets = {name: node.mems(name) for name in homes}
    assert sockets == {"mid-1": "1", "top-1": "0", "top-2": "0", "mid-2": "1", "mid-3": "1"}
    assert node.daemon.engine.decisions[node.id_of("top-2")].decided_by == "cpu_class"
    eventually(lambda: node.cpus_with("scaling_max_freq", TURBO), "1-4,8-13")


def test_competing_classes_share_a_socket_when_there_is_no_room_elsewhere(run: Run) -> None:
    node = run("socket:2 core:4 mem:8G")
    node.run(guaranteed("top", 3000, cpu_class="top"))
    assert node.cpus("top") == "4-6"
    node.run(guaranteed("other", 2000, cpu_class="top"), guaranteed("mid", 1000, cpu_class="mid"))
    assert (node.mems("other"), node.mems("mid")) == ("0", "0")


def test_cpus_that_reach_the_clock_of_a_class_are_found(run: Run) -> None:
    node = run("socket:2 core:8 mem:8G")
    node.run(guaranteed("fast", 2000, cpu_class="fast"))
    assert node.cpus("fast") == str(FAST_CPUS)
    eventually(lambda: node.cpus_with("scaling_max_freq", FASTEST), str(FAST_CPUS))


def test_the_default_class_is_for_exclusive_cpus_alone(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G", classes(defaultExclusiveCPUClass="top"))
    node.run(guaranteed("half", 500), guaranteed("whole", 2000))
    eventually(lambda: node.cpus_with("scaling_governor", "performance"), node.cpus("whole"))


def test_reserved_cpus_have_their_own_class(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G", classes(reservedPoolCPUClass="top"))
    eventually(lambda: node.cpus_with("scaling_governor", "performance"), "0")
    eventually(lambda: node.cpus_with("scaling_max_freq", BASE), "1-7")


def test_another_configuration_sets_other_clocks(run: Run) -> None:
    node = run("socket:1 core:8 mem:8G")
    node.run(guaranteed("a", 2000, cpu_class="mid"))
    eventually(lambda: node.cpus_with("scaling_min_freq", TURBO), "1-2")
    assert node.daemon.reconfigure(config())
    for name, text in FOUND.items():
        eventually(partial(node.cpus_with, name, text), "0-7")

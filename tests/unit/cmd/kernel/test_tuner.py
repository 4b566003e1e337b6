"""Interrupts and clocks behind a running plugin: set after the answers, put back on release."""

import logging
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.cmd.kernel.tuner import Tuner, tuner_below
from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Synchronized
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime, RequestError
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.plugin.plugin import Plugin, Timing
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.cmd.overtaken_event import OvertakenEvent

SECONDS = 10.0
PATIENT = Timing(deadline_seconds=7.0)
MACHINE = machine_from_spec("socket:1 numa:1 core:4 thread:1 mem:8G")
LINES = {4: "IO-APIC 4-edge ttyS0", 8: "IO-APIC 8-edge rtc0"}
KEY = "irq-affinity.resource-policy.nri.io/container"


def config(**fields: object) -> Config:
    classes = [{"name": "low", "freqGovernor": "powersave"}, {"name": "high", "maxFreq": "3GHz"}]
    return config_from_values(
        {
            "cpuClasses": classes,
            "sharedPoolCPUClass": "low",
            "defaultExclusiveCPUClass": "high",
            "controllableInterrupts": ["*ttyS0*"],
            **fields,
        }
    )


class Node:
    """A plugin with a tuner, and the tree it tunes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.write_interrupts(LINES)
        for cpu in range(4):
            clock = folder / f"sys/devices/system/cpu/cpu{cpu}/cpufreq"
            clock.mkdir(parents=True)
            (clock / "scaling_governor").write_text("schedutil")
            (clock / "scaling_max_freq").write_text("3500000")
        self.runtime = EmbeddedRuntime(request_timeout_seconds=10.0)
        self.tuner: Tuner = tuner_below(folder, None, logging.getLogger("tuning"))
        policy = Engine(MACHINE, config())
        self.plugin = Plugin(policy, embedded_link(self.runtime), self.tuner, timing=PATIENT)
        self.tuner.start(self.plugin)
        self.thread = threading.Thread(target=self.plugin.run, daemon=True)
        self.thread.start()
        assert self.runtime.wait_until_synchronized(SECONDS)

    def write_interrupts(self, lines: dict[int, str]) -> None:
        listed = "".join(f"{number:4}: 0 0 0 0 {text}\n" for number, text in lines.items())
        for number in lines:
            folder = self.root / f"proc/irq/{number}"
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "smp_affinity_list").exists():
                (folder / "smp_affinity_list").write_text("0-3\n")
        (self.root / "proc/interrupts").write_text(f"  CPU0 CPU1 CPU2 CPU3\n{listed}")

    def create(self, name: str, annotations: dict[str, str]) -> str:
        pod = nri_pb2.PodSandbox(id=name, name=name, annotations=write_entries(annotations))
        pod.linux.cgroup_parent = "/kubepods/pod1"
        self.runtime.run_pod(pod)
        container = nri_pb2.Container(id=name, name=name, pod_sandbox_id=name)
        container.linux.resources.cpu.shares.value = 1024
        return self.runtime.create(container).linux.resources.cpu.cpus

    def irq(self, number: int) -> str:
        return (self.root / f"proc/irq/{number}/smp_affinity_list").read_text().strip()

    def clocks(self, name: str) -> list[str]:
        folder = self.root / "sys/devices/system/cpu"
        return [(folder / f"cpu{cpu}/cpufreq/{name}").read_text() for cpu in range(4)]

    def stop(self) -> None:
        self.tuner.stop()
        self.plugin.stop()
        self.thread.join(SECONDS)


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[Node]:
    node = Node(tmp_path)
    yield node
    node.stop()


def eventually(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.01)


def test_a_claim_and_a_class_follow_the_container_and_end_with_it(node: Node) -> None:
    eventually(lambda: node.clocks("scaling_governor") == ["powersave"] * 4)
    assert node.create("c", {f"{KEY}.c": "claim: ['*ttyS0*']"}) == "1"
    eventually(lambda: node.irq(4) == "1")
    eventually(lambda: node.clocks("scaling_max_freq")[1] == "3000000")
    assert node.clocks("scaling_governor") == ["powersave", "schedutil", "powersave", "powersave"]
    assert node.irq(8) == "0-3"
    node.runtime.remove_pod("c")
    eventually(lambda: node.irq(4) == "0-3")
    eventually(lambda: node.clocks("scaling_max_freq") == ["3500000"] * 4)


def test_an_interrupt_that_must_stay_refuses_the_container(node: Node) -> None:
    with pytest.raises(RequestError, match=r"denied interrupt: 8 .* denied but matched"):
        node.create("c", {f"{KEY}.c": "mask: ['*rtc*']"})
    assert node.irq(8) == "0-3"


def test_interrupts_of_devices_that_come_later_are_found(node: Node) -> None:
    node.write_interrupts({**LINES, 9: "PCI-MSIX ttyS0-late"})
    node.create("c", {f"{KEY}.c": "claim: ['*ttyS0*']"})
    eventually(lambda: node.irq(9) == "1")
    eventually(lambda: len(node.plugin.events.policy.interrupts) == 3)


def test_an_interrupt_that_belongs_to_another_device_by_now_is_left_alone(node: Node) -> None:
    node.create("c", {f"{KEY}.c": "claim: ['*ttyS0*']"})
    eventually(lambda: node.irq(4) == "1")
    eventually(lambda: node.clocks("scaling_max_freq")[1] == "3000000")
    node.write_interrupts({**LINES, 4: "PCI-MSIX nvme0q1"})
    (node.root / "proc/irq/4/smp_affinity_list").write_text("2")
    node.runtime.remove_pod("c")
    eventually(lambda: node.clocks("scaling_max_freq") == ["3500000"] * 4)
    assert node.irq(4) == "2"


def test_another_configuration_takes_effect_at_once(node: Node) -> None:
    node.create("c", {f"{KEY}.c": "mask: ['*ttyS0*']"})
    eventually(lambda: node.irq(4) == "0,2-3")
    fresh = config(sharedPoolCPUClass="high", defaultExclusiveCPUClass="low")
    node.plugin.owner.ask("reconfigure", lambda: node.plugin.events.reconfigure(fresh))
    expected = ["schedutil", "powersave", "schedutil", "schedutil"]
    eventually(lambda: node.clocks("scaling_governor") == expected)
    assert node.irq(4) == "0,2-3"


def test_a_clean_stop_leaves_clocks_as_they_were(node: Node) -> None:
    node.create("c", {f"{KEY}.c": "claim: ['*ttyS0*']"})
    eventually(lambda: node.irq(4) == "1")
    node.stop()
    assert node.clocks("scaling_governor") == ["schedutil"] * 4
    assert node.clocks("scaling_max_freq") == ["3500000"] * 4
    assert node.irq(4) == "1"


def test_nothing_is_set_before_anything_is_known(tmp_path: Path) -> None:
    tuner = tuner_below(tmp_path, None, logging.getLogger("tuning"))
    tuner.stop()
    assert list(tmp_path.iterdir()) == []


def test_an_end_is_not_missed_whenever_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = tuner_below(tmp_path, None, logging.getLogger("tuning"))
    due = OvertakenEvent(tuner.stop)
    monkeypatch.setattr(tuner, "_is_due", due)
    plugin = Plugin(Engine(MACHINE, config()), embedded_link(EmbeddedRuntime()), tuner)
    tuner.start(plugin)
    tuner(Synchronized(0, 0))
    assert due.is_over.wait(SECONDS), "it waits for a change for ever"
    plugin.owner.close()

"""Turning knobs on generated trees of the kernel's files."""

import errno
import logging
import os
from pathlib import Path

import pytest

from pinfold.cmd.kernel.kernel_settings import KernelSettings
from pinfold.cmd.kernel.knobs import Knobs, parse_interrupts
from pinfold.cmd.kernel.originals import Original, Originals
from pinfold.policy.tuning.cpu_class import Clock
from pinfold.policy.tuning.effects import Effects, Knob, KnobKind
from pinfold.topology.sets.cpuset import CpuSet

CPU = "sys/devices/system/cpu"
FILES = {
    "proc/interrupts": (
        "            CPU0       CPU1       CPU2       CPU3\n"
        "   4:          1          0          0          9  IO-APIC   4-edge      ttyS0\n"
        "  27:          0          0          7          0  PCI-MSIX-0000:00:05.0   1-edge   eth0\n"
        "  30:          0          0          0          0  IO-APIC  hidden\n"
        " NMI:          0          0          0          0  Non-maskable interrupts\n"
        " ERR:          0\n"
    ),
    "proc/irq/4/smp_affinity_list": "0-3\n",
    "proc/irq/27/smp_affinity_list": "2\n",
    "proc/sys/kernel/random/boot_id": "first\n",
    f"{CPU}/intel_uncore_frequency/package_01_die_00/initial_min_freq_khz": "800000\n",
    f"{CPU}/intel_uncore_frequency/package_01_die_00/initial_max_freq_khz": "2400000\n",
    f"{CPU}/intel_uncore_frequency/package_01_die_00/min_freq_khz": "800000\n",
    f"{CPU}/intel_uncore_frequency/package_01_die_00/max_freq_khz": "2400000\n",
    **{
        f"{CPU}/cpu{cpu}/{name}": f"{text}\n"
        for cpu in range(4)
        for name, text in {
            "cpufreq/scaling_governor": "schedutil",
            "cpufreq/scaling_min_freq": "800000",
            "cpufreq/scaling_max_freq": "3500000",
            "cpufreq/energy_performance_preference": "balance_performance",
            "cpuidle/state0/name": "POLL",
            "cpuidle/state0/disable": "0",
            "cpuidle/state2/name": "C6",
            "cpuidle/state2/disable": "0",
        }.items()
    },
}
IRQ_4 = Knob(KnobKind.IRQ_AFFINITY, 4)
IRQ_27 = Knob(KnobKind.IRQ_AFFINITY, 27)


class CrashError(Exception):
    pass


class Kernel(Knobs):
    """A tree that refuses what a kernel may refuse."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.refusals: dict[str, int] = {}
        self.written: list[str] = []
        self.crashes_after: int | None = None

    def write(self, path: str, text: str) -> None:
        if len(self.written) == self.crashes_after:
            raise CrashError
        if (number := self.refusals.get(path)) is not None:
            raise OSError(number, os.strerror(number))
        folder, name = os.path.split(path)
        if name == "scaling_min_freq" and int(text) > int(self.read(f"{folder}/scaling_max_freq")):
            raise OSError(errno.EINVAL, "Invalid argument")
        if name == "scaling_max_freq" and int(text) < int(self.read(f"{folder}/scaling_min_freq")):
            raise OSError(errno.EINVAL, "Invalid argument")
        if name == "scaling_max_freq":
            text = f"{int(text) // 100_000}00000"
        super().write(path, text)
        self.written.append(path)


class Node:
    """A generated tree, its settings, and the folder that survives."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state = folder / "root", folder / "state"
        self.state.mkdir()
        for path, text in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.kernel = Kernel(self.root)
        self.settings = self.restart()

    def restart(self) -> KernelSettings:
        """A new process that knows what the last one wrote down."""
        log = logging.getLogger("settings")
        originals = Originals(self.state, self.kernel.boot_id(), log)
        self.settings = KernelSettings(self.kernel, originals, log)
        return self.settings

    def read(self, path: str) -> str:
        return (self.root / path).read_text().strip()

    def all(self) -> dict[str, str]:
        return {path: self.read(path) for path in FILES}


ORIGINAL = {path: text.strip() for path, text in FILES.items()}


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def fast(cpu: int) -> dict[Knob, str]:
    return {
        Knob(KnobKind.GOVERNOR, cpu): "performance",
        Knob(KnobKind.EPP, cpu): "performance",
        Knob(KnobKind.MIN_FREQUENCY, cpu): "2000000",
        Knob(KnobKind.MAX_FREQUENCY, cpu): "3000000",
        Knob(KnobKind.CSTATE_DISABLED, cpu, "C6"): "1",
    }


def test_interrupts_are_listed_by_number_with_one_blank_between_words() -> None:
    assert parse_interrupts(FILES["proc/interrupts"]) == {
        4: "IO-APIC 4-edge ttyS0",
        27: "PCI-MSIX-0000:00:05.0 1-edge eth0",
        30: "IO-APIC hidden",
    }
    assert parse_interrupts("") == {}


def test_hardware_is_what_can_be_set(node: Node) -> None:
    hardware = node.settings.hardware()
    assert [(one.number, str(one.affinity)) for one in hardware.interrupts] == [
        (4, "0-3"),
        (27, "2"),
    ]
    assert hardware.uncore == {"1/0": Clock(min_khz=800_000, max_khz=2_400_000)}


def test_every_kind_of_knob_is_written_and_put_back(node: Node) -> None:
    wanted = {
        **fast(1),
        IRQ_4: "0,2-3",
        Knob(KnobKind.UNCORE_MIN, name="1/0"): "1600000",
        Knob(KnobKind.UNCORE_MAX, name="1/0"): "2000000",
    }
    assert node.settings.apply(Effects(wanted)) == len(wanted)
    assert node.read(f"{CPU}/cpu1/cpufreq/scaling_governor") == "performance"
    assert node.read(f"{CPU}/cpu1/cpufreq/energy_performance_preference") == "performance"
    assert node.read(f"{CPU}/cpu1/cpufreq/scaling_min_freq") == "2000000"
    assert node.read(f"{CPU}/cpu1/cpuidle/state2/disable") == "1"
    assert node.read("proc/irq/4/smp_affinity_list") == "0,2-3"
    assert node.read(f"{CPU}/intel_uncore_frequency/package_01_die_00/max_freq_khz") == "2000000"
    assert sum(node.all()[path] != ORIGINAL[path] for path in FILES) == len(wanted)
    assert node.settings.apply(Effects()) == len(wanted)
    assert node.all() == ORIGINAL


def test_what_did_not_change_is_not_written_again(node: Node) -> None:
    node.settings.apply(Effects({IRQ_4: "1", IRQ_27: "2"}))
    assert node.kernel.written == ["proc/irq/4/smp_affinity_list"]
    assert node.settings.apply(Effects({IRQ_4: "1", IRQ_27: "2"})) == 0
    assert node.settings.apply(Effects({IRQ_4: "1"})) == 0
    assert node.kernel.written == ["proc/irq/4/smp_affinity_list"]


def test_a_value_the_kernel_rounds_is_not_written_again(node: Node) -> None:
    wanted = Effects({Knob(KnobKind.MAX_FREQUENCY, 0): "2345678"})
    assert node.settings.apply(wanted) == 1
    assert node.read(f"{CPU}/cpu0/cpufreq/scaling_max_freq") == "2300000"
    assert node.settings.apply(wanted) == 0


@pytest.mark.parametrize(
    ("low", "high"),
    [
        pytest.param("3600000", "4000000", id="both ends above the old range"),
        pytest.param("500000", "700000", id="both ends below the old range"),
    ],
)
def test_a_range_moves_whatever_the_old_one(node: Node, low: str, high: str) -> None:
    wanted = {Knob(KnobKind.MIN_FREQUENCY, 0): low, Knob(KnobKind.MAX_FREQUENCY, 0): high}
    assert node.settings.apply(Effects(wanted)) == 2
    assert node.read(f"{CPU}/cpu0/cpufreq/scaling_min_freq") == low
    node.settings.apply(Effects())
    assert node.all() == ORIGINAL


def test_files_that_refuse_are_one_warning_for_all_of_a_kind(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for irq in (4, 27):
        node.kernel.refusals[f"proc/irq/{irq}/smp_affinity_list"] = errno.EIO
    effects = Effects({IRQ_4: "1", IRQ_27: "1", **fast(0)})
    assert node.settings.apply(effects) == len(fast(0))
    assert node.settings.apply(effects) == 0
    assert [one.getMessage() for one in caplog.records] == [
        "interrupt affinity of interrupt 4, interrupt 27: input/output error"
        " — some interrupts the kernel lets nobody move; leave them out"
    ]
    node.settings.apply(Effects())
    assert len(caplog.records) == 1, "what never changed is not put back"
    assert node.all() == ORIGINAL


def test_many_refusals_name_only_some(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    wanted = {Knob(KnobKind.GOVERNOR, cpu): "performance" for cpu in range(100, 120)}
    assert node.settings.apply(Effects(wanted)) == 0
    (record,) = caplog.records
    assert record.getMessage() == (
        "frequency governor of cpu 100, cpu 101, cpu 102, cpu 103, cpu 104, cpu 105, cpu 106,"
        " cpu 107 and 12 more: no such file or directory — this machine has no such thing; leave it"
        " out of the configuration"
    )
    assert not (node.root / CPU / "cpu100").exists()


def test_an_unknown_idle_state_says_which_there_are(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = {Knob(KnobKind.CSTATE_DISABLED, cpu, "C9"): "1" for cpu in (0, 1)}
    assert node.settings.apply(Effects(wanted)) == 0
    assert [one.getMessage() for one in caplog.records] == [
        "idle state of cpu 0 C9, cpu 1 C9: no such idle state (known are POLL, C6)"
        " — this machine has no such thing; leave it out of the configuration"
    ]


def test_the_cpus_concerned_are_no_new_reason_to_warn(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for cpus in ((0,), (0, 1), (), (2, 3)):
        wanted = {Knob(KnobKind.CSTATE_DISABLED, cpu, "C9"): "1" for cpu in cpus}
        node.settings.apply(Effects(wanted))
    assert len(caplog.records) == 1
    node.settings.apply(Effects({Knob(KnobKind.CSTATE_DISABLED, 0, "C10"): "1"}))
    assert len(caplog.records) == 2, "another idle state is another reason"


def test_another_interrupt_that_refuses_is_told(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for irq in (4, 27):
        node.kernel.refusals[f"proc/irq/{irq}/smp_affinity_list"] = errno.EIO
    for wanted in ({IRQ_4: "1"}, {IRQ_4: "1", IRQ_27: "1"}, {}, {IRQ_4: "2", IRQ_27: "3"}):
        node.settings.apply(Effects(wanted))
    first, second = (one.getMessage().partition(":")[0] for one in caplog.records)
    assert first == "interrupt affinity of interrupt 4"
    assert second == "interrupt affinity of interrupt 27"


def test_a_tree_that_is_read_only_is_one_warning_whatever_is_wanted(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for path in FILES:
        node.kernel.refusals[path] = errno.EROFS
    for text, irq in (("performance", IRQ_4), ("powersave", IRQ_27)):
        node.settings.apply(Effects({irq: "1", Knob(KnobKind.GOVERNOR, 0): text}))
    kinds = [one.getMessage().partition(" of ")[0] for one in caplog.records]
    assert kinds == ["interrupt affinity", "frequency governor"]


def test_what_was_refused_is_tried_again_at_the_next_change(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{CPU}/cpu0/cpufreq/scaling_governor"
    wanted = {Knob(KnobKind.GOVERNOR, 0): "performance"}
    node.kernel.refusals[path] = errno.EBUSY
    assert node.settings.apply(Effects(wanted)) == 0
    assert node.settings.apply(Effects({**wanted, IRQ_4: "1"})) == 1
    assert node.read(path) == "schedutil"
    node.kernel.refusals.clear()
    assert node.settings.apply(Effects(wanted)) == 2
    assert node.read(path) == "performance"
    (record,) = caplog.records
    assert "frequency governor of cpu 0: device or resource busy" in record.getMessage()
    node.settings.apply(Effects())
    assert node.all() == ORIGINAL


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_what_nobody_may_write_is_not_tried_again(node: Node, number: int) -> None:
    path = f"{CPU}/cpu0/cpufreq/scaling_governor"
    wanted = Effects({Knob(KnobKind.GOVERNOR, 0): "performance"})
    node.kernel.refusals[path] = number
    node.settings.apply(wanted)
    node.kernel.refusals.clear()
    assert node.settings.apply(wanted) == 0


def test_warnings_about_what_is_wanted_are_told_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    for warnings in (("no driver",), (), ("no driver",)):
        node.settings.apply(Effects({}, warnings))
    assert [one.getMessage() for one in caplog.records] == ["no driver"]


def test_cpus_that_share_a_clock_run_as_fast_as_the_fastest(node: Node) -> None:
    shared = node.root / CPU / "cpufreq" / "policy0"
    shared.parent.mkdir()
    (node.root / CPU / "cpu0" / "cpufreq").rename(shared)
    for cpu in (0, 1):
        folder = node.root / CPU / f"cpu{cpu}" / "cpufreq"
        if folder.exists():
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        folder.symlink_to("../cpufreq/policy0")
    both = {Knob(KnobKind.MAX_FREQUENCY, cpu): f"{2 - cpu}000000" for cpu in (0, 1)}
    assert node.settings.apply(Effects(both)) == 1
    assert (shared / "scaling_max_freq").read_text() == "2000000"
    node.settings.apply(Effects({Knob(KnobKind.MAX_FREQUENCY, 1): "1000000"}))
    assert (shared / "scaling_max_freq").read_text() == "1000000"
    node.settings.apply(Effects())
    assert (shared / "scaling_max_freq").read_text().strip() == "3500000"


def test_a_clean_stop_puts_clocks_back_and_leaves_interrupts(node: Node) -> None:
    node.settings.apply(Effects({**fast(2), IRQ_4: "3"}))
    node.settings.rest()
    assert {path for path in FILES if node.all()[path] != ORIGINAL[path]} == {
        "proc/irq/4/smp_affinity_list"
    }


def test_the_next_process_knows_what_the_last_one_changed(node: Node) -> None:
    node.settings.apply(Effects({**fast(2), IRQ_4: "3"}))
    node.settings.hardware()
    settings = node.restart()
    assert settings.moves_interrupts
    settings.apply(Effects({IRQ_4: "1"}))
    settings.apply(Effects())
    assert node.all() == ORIGINAL
    assert not node.restart().moves_interrupts


@pytest.mark.parametrize("writes", range(6))
def test_a_crash_between_two_writes_loses_no_original(node: Node, writes: int) -> None:
    wanted = Effects({**fast(2), IRQ_4: "3"})
    node.kernel.crashes_after = writes
    with pytest.raises(CrashError):
        node.settings.apply(wanted)
    node.kernel.crashes_after = None
    node.restart().apply(wanted)
    assert sum(node.all()[path] != ORIGINAL[path] for path in FILES) == len(wanted.values)
    node.settings.apply(Effects())
    assert node.all() == ORIGINAL


def test_originals_of_another_boot_are_void(node: Node) -> None:
    node.settings.apply(Effects({IRQ_4: "3"}))
    (node.root / "proc/sys/kernel/random/boot_id").write_text("second\n")
    assert not node.restart().moves_interrupts


def test_interrupts_are_known_with_the_cpus_that_served_them_first(node: Node) -> None:
    node.settings.hardware()
    node.settings.apply(Effects({IRQ_4: "3"}))
    first, _ = node.settings.hardware().interrupts
    assert first.affinity == CpuSet.parse("0-3")


def test_a_number_that_went_to_another_device_is_a_new_interrupt(node: Node) -> None:
    node.settings.hardware()
    node.settings.apply(Effects({IRQ_4: "3"}))
    other = FILES["proc/interrupts"].replace("ttyS0", "nvme7q1")
    (node.root / "proc/interrupts").write_text(other)
    (node.root / "proc/irq/4/smp_affinity_list").write_text("1\n")
    first, _ = node.settings.hardware().interrupts
    assert first.affinity == CpuSet.parse("1")
    node.settings.apply(Effects())
    assert node.read("proc/irq/4/smp_affinity_list") == "1"


def test_an_interrupt_that_is_gone_is_forgotten(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.settings.apply(Effects({IRQ_4: "3"}))
    (node.root / "proc/irq/4/smp_affinity_list").unlink()
    node.settings.apply(Effects())
    assert not node.settings.moves_interrupts
    assert caplog.records == []


def test_an_original_that_cannot_be_put_back_is_tried_again(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.settings.apply(Effects({IRQ_4: "3"}))
    node.kernel.refusals["proc/irq/4/smp_affinity_list"] = errno.EROFS
    for _ in range(2):
        node.settings.apply(Effects())
    (record,) = caplog.records
    assert "original value of proc/irq/4/smp_affinity_list" in record.getMessage()
    assert "set ProtectKernelTunables=no" in record.getMessage()
    node.kernel.refusals.clear()
    node.settings.apply(Effects())
    assert node.all() == ORIGINAL


def test_originals_that_cannot_be_saved_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    originals = Originals(tmp_path / "absent", "boot", logging.getLogger("originals"))
    originals.keep("a", Original(text="1"))
    originals.save()
    originals.save()
    (record,) = caplog.records
    assert "cannot be put back after a restart" in record.getMessage()
    assert originals.by_path == {"a": Original(text="1")}

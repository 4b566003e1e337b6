"""Speed Select behind a running plugin: what is simulated is not written, and told once."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.kernel.tuner import tuner_below
from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.plugin.plugin import Plugin, Timing
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import SocketId, SpeedSelect
from pinfold.topology.sets.cpuset import CpuSet

SECONDS = 10.0
DOMAIN = SpeedSelect(
    socket=SocketId(0),
    cpus=CpuSet.parse("0-3"),
    supports_core_power=True,
    clos_of=dict.fromkeys(range(4), 0),
)
MACHINE = replace(
    machine_from_spec("socket:1 numa:1 core:4 thread:1 mem:8G"), speed_select=(DOMAIN,)
)
CONFIG = config_from_values(
    {
        "cpuClasses": [
            {"name": "low", "pctPriority": "low", "freqGovernor": "powersave"},
            {"name": "high", "pctPriority": "high"},
        ],
        "sharedPoolCPUClass": "low",
        "defaultExclusiveCPUClass": "high",
    }
)


def eventually(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.01)


def logged(
    root: Path, environment: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> list[str]:
    """What a tuner says while a container comes and goes."""
    governors = [root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq" for cpu in range(4)]
    for folder in governors:
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("schedutil")

    def governor() -> list[str]:
        return [(folder / "scaling_governor").read_text() for folder in governors]

    runtime = EmbeddedRuntime()
    tuner = tuner_below(root, None, logging.getLogger("tuning"), environment)
    plugin = Plugin(
        Engine(MACHINE, CONFIG), embedded_link(runtime), tuner, timing=Timing(deadline_seconds=1.4)
    )
    tuner.start(plugin)
    thread = threading.Thread(target=plugin.run, daemon=True)
    thread.start()
    try:
        assert runtime.wait_until_synchronized(SECONDS)
        eventually(lambda: governor() == ["powersave"] * 4)
        pod = nri_pb2.PodSandbox(id="p", name="p")
        pod.linux.cgroup_parent = "/kubepods/pod1"
        runtime.run_pod(pod)
        container = nri_pb2.Container(id="c", name="c", pod_sandbox_id="p")
        container.linux.resources.cpu.shares.value = 1024
        runtime.create(container)
        eventually(lambda: governor() == ["powersave", "schedutil", "powersave", "powersave"])
    finally:
        tuner.stop()
        plugin.stop()
        thread.join(SECONDS)
    return [one.getMessage() for one in caplog.records if one.name == "tuning"]


def test_a_simulated_one_is_told_once_and_the_rest_is_tuned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert logged(tmp_path, {"OVERRIDE_SST": '{"supported": true}'}, caplog) == [
        "Speed Select is simulated: nothing is written to hardware — unset OVERRIDE_SST"
    ]


def test_a_device_that_is_gone_is_told_once_and_the_rest_is_tuned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = logged(tmp_path, {}, caplog)
    assert line == (
        "Speed Select of cpu 0, cpu 1, cpu 2, cpu 3, power domain 0/0: no such file or directory"
        " — load its drivers, and let the service have /dev/isst_interface"
    )


def test_a_daemon_sees_a_machine_as_it_was_found() -> None:
    found = replace(MACHINE, speed_select=())
    runtime = EmbeddedRuntime()
    daemon = Daemon(
        MACHINE, CONFIG, embedded_link(runtime), as_found=lambda one: replace(one, speed_select=())
    )
    assert daemon.machine == found
    daemon.start()
    try:
        assert runtime.wait_until_synchronized(SECONDS)
        assert not daemon.reconfigure(machine=MACHINE)
        assert daemon.machine == found
    finally:
        daemon.stop()

"""Scheduling classes on their way to the runtime, and runtimes that cannot act on them."""

from collections.abc import Generator

import pytest

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.actuator import Actuator
from pinfold.nri.dispatch.events import Events
from pinfold.nri.dispatch.owner import Owner
from pinfold.nri.dispatch.report import Crashed, Happening, Unsupported
from pinfold.nri.plugin.container_reader import ContainerReader
from pinfold.nri.plugin.messages import adjustment_message
from pinfold.nri.plugin.service import PLUGIN_SERVICE, ServedCall, Service
from pinfold.nri.wire.connection import Call
from pinfold.policy.configuration.config import SchedulingClass
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
CONFIG = config_from_values(
    {
        "schedulingClasses": [
            {"name": "fast", "policy": "fifo", "priority": 7, "flags": ["reset-on-fork"]},
            {"name": "slow", "policy": "idle", "nice": 17, "ioClass": "be", "ioPriority": 6},
            {"name": "nice", "nice": 5},
            {"name": "unheeded", "policy": "rr", "priority": 7, "nice": 5},
            {"name": "disk", "ioClass": "idle"},
            {
                "name": "periodic",
                "policy": "deadline",
                "runtime": 2000,
                "deadline": 5000,
                "period": 10000,
                "flags": ["dl-overrun", "keep-params"],
            },
            {"name": "void"},
        ],
        "podQoSSchedulingClasses": {"guaranteed": "fast"},
    }
)
CLASSES = {one.name: one for one in CONFIG.scheduling_classes}


def text(chosen: SchedulingClass) -> str:
    message = adjustment_message(Pinning(), chosen)
    return " ".join(str(message or "").split())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fast", "linux { scheduler { policy: SCHED_FIFO priority: 7 flags: %s } }"),
        (
            "slow",
            "linux { io_priority { class: IOPRIO_CLASS_BE priority: 6 }"
            " scheduler { policy: SCHED_IDLE nice: 17 } }",
        ),
        ("nice", "linux { scheduler { policy: SCHED_OTHER nice: 5 } }"),
        ("unheeded", "linux { scheduler { policy: SCHED_RR priority: 7 } }"),
        ("disk", "linux { io_priority { class: IOPRIO_CLASS_IDLE } }"),
        (
            "periodic",
            "linux { scheduler { policy: SCHED_DEADLINE flags: SCHED_FLAG_DL_OVERRUN"
            " flags: SCHED_FLAG_KEEP_PARAMS runtime: 2000 deadline: 5000 period: 10000 } }",
        ),
        ("void", ""),
    ],
)
def test_scheduling_classes_become_messages(name: str, expected: str) -> None:
    assert text(CLASSES[name]) == expected.replace("%s", "SCHED_FLAG_RESET_ON_FORK")


class Served:
    """A service with what it reports."""

    def __init__(self) -> None:
        self.unsupported: list[str] = []
        self.crashes: list[str] = []
        self.owner = Owner(self._fail)
        actuator = Actuator(self._report, lambda: 0.0)
        events = Events(Engine(MACHINE, CONFIG), actuator, self.owner, self._report)
        reader = ContainerReader(None, self._report, None)
        self.service = Service(events, reader, self.owner, self._report, lambda: 0.0, 5.0)

    def _fail(self, what: str, error: Exception) -> None:
        raise AssertionError(what) from error

    def _report(self, happening: Happening) -> None:
        if isinstance(happening, Unsupported):
            self.unsupported.append(happening.what)
        if isinstance(happening, Crashed):
            self.crashes.append(happening.what)

    def configure(self, version: str, nri_version: str = "") -> None:
        request = nri_pb2.ConfigureRequest(
            runtime_name="containerd", runtime_version=version, NRI_version=nri_version
        )
        self.call("Configure", request.SerializeToString())

    def create(self, name: str) -> nri_pb2.CreateContainerResponse:
        container = nri_pb2.Container(id=name, name=name, pod_sandbox_id="p")
        container.linux.resources.cpu.shares.value = 1024
        pod = nri_pb2.PodSandbox(id="p", name="p", linux={"cgroup_parent": "/kubepods/pod1"})
        request = nri_pb2.CreateContainerRequest(pod=pod, container=container)
        answer = self.call("CreateContainer", request.SerializeToString())
        return nri_pb2.CreateContainerResponse.FromString(answer)

    def call(self, method: str, payload: bytes) -> bytes:
        call = Call(stream_id=1, service=PLUGIN_SERVICE, method=method, payload=payload)
        served = ServedCall(call=call, started=0.0, seconds=10.0)
        self.service.serve(served)
        while self.owner.left:
            assert self.owner.tidy()
        assert isinstance(served.answer, bytes)
        return served.answer


@pytest.fixture(name="served")
def fixture_served() -> Generator[Served]:
    served = Served()
    yield served
    served.owner.close()


def test_a_new_container_is_scheduled_as_its_class_says(served: Served) -> None:
    served.configure("v2.3.0", "v0.11.0")
    linux = served.create("c").adjust.linux
    assert linux.scheduler.policy == nri_pb2.SCHED_FIFO
    assert linux.resources.cpu.cpus
    assert served.unsupported == []


def test_an_older_runtime_is_told_nothing_and_the_operator_once(served: Served) -> None:
    served.configure("v2.1.9")
    for name in ("a", "b"):
        linux = served.create(name).adjust.linux
        assert not linux.HasField("scheduler")
        assert linux.resources.cpu.cpus
    assert served.unsupported == [
        "scheduling class 'fast': containerd v2.1.9 cannot set how processes are scheduled, so its"
        " containers run without — use a runtime with NRI 0.11 or newer"
    ]


def test_a_fault_in_reading_a_call_is_answered_safely(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ContainerReader, "mention", fail)
    assert served.call("UpdateContainer", b"") == b""
    assert served.crashes == ["UpdateContainer"]

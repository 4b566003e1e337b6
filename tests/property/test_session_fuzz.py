"""Odd runtimes: whatever the payload, the plugin answers, and nothing of ours falls over."""

from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinfold.nri.api import nri_pb2
from pinfold.nri.dispatch.report import Connected, Crashed, Happening
from pinfold.nri.plugin.plugin import Timing
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.nri.wire.ttrpc import Code
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.nri.loopback import Loopback, loopback

MACHINE = machine_from_spec("socket:1 numa:2 core:4 thread:1 mem:4G")
SECONDS = 30.0
METHODS = (
    "CreateContainer",
    "UpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "PostStartContainer",
    "RemovePodSandbox",
    "StateChange",
    "Synchronize",
    "Dance",
)
CODES = {0, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.UNIMPLEMENTED}


class Watched:
    """A plugin and the faults it reported."""

    def __init__(self, node: Loopback, crashes: list[Crashed], connections: list[str]) -> None:
        self.node = node
        self.crashes = crashes
        self.connections = connections

    def exchange(self, method: str, payload: bytes) -> int:
        code = self.node.runtime.exchange(method, payload, SECONDS)
        # Some answers do not wait for the policy.
        self.node.plugin.owner.ask("wait", lambda: None)
        return code


@pytest.fixture(name="watched", scope="module")
def fixture_watched() -> Generator[Watched]:
    crashes: list[Crashed] = []
    connections: list[str] = []

    def report(happening: Happening) -> None:
        if isinstance(happening, Crashed):
            crashes.append(happening)
        elif isinstance(happening, Connected):
            connections.append(happening.runtime)

    with loopback(
        Engine(MACHINE, Config()),
        report,
        timing=Timing(deadline_seconds=20.0),
        machine_memory_bytes=8 << 30,
    ) as node:
        yield Watched(node, crashes, connections)


fuzz = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

ids = st.sampled_from(["", "a", "b", "c"]) | st.text(max_size=3)
uint64 = st.sampled_from([0, 1, 2, 3, 1024, 2**18, 2**63, 2**64 - 1])
int64 = st.sampled_from([0, 1, -1, 1000, 100_000, 2**63 - 1, -(2**63)])
cpu_lists = st.sampled_from(["", "0", "1-3", "0-8191", "9999999999", "x", "3-1", "0-31:1/2"])
texts = st.text(max_size=8)
annotations = st.dictionaries(
    st.sampled_from(
        [
            "resource-policy.nri.io/affinity",
            "noderesource.dev/resources",
            "memory-type.resource-policy.nri.io/pod",
            "prefer-isolated-cpus.resource-policy.nri.io/container.a",
            "cold-start.resource-policy.nri.io/pod",
        ]
    ),
    st.sampled_from(
        [
            "",
            "{",
            "a: [b]",
            "{a: [{match: {key: name, operator: Equals, values: [b]}}]}",
            "- -",
            "3",
        ]
    )
    | texts,
    max_size=3,
)
parents = st.sampled_from(
    ["", "/kubepods/burstable/pod1", "kubepods-besteffort-pod1.slice", "///", "a.slice"]
)


@st.composite
def pods(draw: st.DrawFn) -> nri_pb2.PodSandbox:
    return nri_pb2.PodSandbox(
        id=draw(ids),
        name=draw(ids),
        namespace=draw(st.sampled_from(["", "default", "kube-system"])),
        annotations=write_entries(draw(annotations))
        + draw(st.lists(st.binary(max_size=9), max_size=2)),
        linux=nri_pb2.LinuxPodSandbox(cgroup_parent=draw(parents)),
    )


@st.composite
def resources(draw: st.DrawFn) -> nri_pb2.LinuxResources:
    message = nri_pb2.LinuxResources()
    message.cpu.shares.value = draw(uint64)
    message.cpu.quota.value = draw(int64)
    message.cpu.period.value = draw(uint64)
    message.cpu.cpus, message.cpu.mems = draw(cpu_lists), draw(cpu_lists)
    message.memory.limit.value = draw(int64)
    message.hugepage_limits.add(page_size=draw(st.sampled_from(["2MB", "", "1XB"])), limit=7)
    return message


@st.composite
def containers(draw: st.DrawFn) -> nri_pb2.Container:
    message = nri_pb2.Container(
        id=draw(ids),
        pod_sandbox_id=draw(ids),
        name=draw(ids),
        created_at=draw(int64),
        state=draw(st.sampled_from(nri_pb2.ContainerState.keys())),
    )
    message.linux.resources.CopyFrom(draw(resources()))
    message.linux.oom_score_adj.value = draw(int64)
    message.linux.devices.add(path=draw(texts), type=draw(texts), major=draw(int64))
    message.mounts.add(source=draw(texts), destination=draw(texts), options=[draw(texts)])
    return message


@fuzz
@given(method=st.sampled_from(METHODS), payload=st.binary(max_size=60))
def test_bytes_that_may_be_no_message_are_answered(
    watched: Watched, method: str, payload: bytes
) -> None:
    assert watched.exchange(method, payload) in CODES
    assert watched.crashes == []
    assert len(watched.connections) == 1


@fuzz
@given(
    method=st.sampled_from(METHODS),
    pod=pods(),
    container=containers(),
    wanted=resources(),
)
def test_messages_with_odd_values_are_answered(
    watched: Watched,
    method: str,
    pod: nri_pb2.PodSandbox,
    container: nri_pb2.Container,
    wanted: nri_pb2.LinuxResources,
) -> None:
    if method == "Synchronize":
        message = nri_pb2.SynchronizeRequest(pods=[pod], containers=[container])
        payload = message.SerializeToString()
    else:
        request = nri_pb2.UpdateContainerRequest(
            pod=pod, container=container, linux_resources=wanted
        )
        payload = request.SerializeToString()
    assert watched.exchange(method, payload) in CODES
    assert watched.crashes == []
    watched.node.plugin.events.policy.check()

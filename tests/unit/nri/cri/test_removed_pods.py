"""Pods that are removed and made again with the uid they had, as static pods are."""

from pathlib import Path

import pytest

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import QosClass
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.nri.cri.wires import SECONDS, CriWire, NriWire, Started, Wire
from tests.unit.nri.sized_pod import GIB, size

MACHINE = machine_from_spec("socket:1 numa:2 core:4 thread:1 mem:4G")


def run(wire: Wire, name: str) -> tuple[str, str]:
    """The id of a pod with one container on cpus of its own, and these cpus."""
    spec = ContainerSpec(name=name, resources=size(2))
    pod = PodSpec(name=name, qos=QosClass.GUARANTEED, containers=(spec,))
    pod_id = wire.run_pod(pod)
    wire.start(Started(pod=pod, spec=spec, pod_id=pod_id, id=""))
    assert wire.front is not None
    assert wire.front.settle(SECONDS)
    (mine,) = (one for one in wire.runtime.containers.values() if one.pod_sandbox_id == pod_id)
    return pod_id, wire.runtime.kernel[mine.id].cpus


@pytest.mark.parametrize("is_proxied", [False, True], ids=["nri", "cri"])
def test_a_pod_that_was_removed_has_no_place_to_come_back_to(
    tmp_path: Path, *, is_proxied: bool
) -> None:
    wire = CriWire(8 * GIB, tmp_path) if is_proxied else NriWire(8 * GIB)
    wire.begin(Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0"))), {})
    try:
        first, emptier = run(wire, "first")
        second, other = run(wire, "second")
        assert emptier != other
        wire.remove_pod(first)
        wire.remove_pod(second)
        assert wire.front is not None
        assert wire.front.settle(SECONDS)
        assert run(wire, "second")[1] == emptier
    finally:
        wire.close()
    assert not wire.faults

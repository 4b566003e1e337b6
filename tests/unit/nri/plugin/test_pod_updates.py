"""Resizes of pods with resources of their own, over NRI: where the runtime tells of them."""

import pytest

from pinfold.nri.embedded.embedded_runtime import RequestError
from pinfold.nri.embedded.kubelet import resources_message, sandbox_message, start_pods
from pinfold.nri.embedded.runtime_dialects import Dialect
from pinfold.nri.plugin.runtime_events import EVENT_MASK
from pinfold.nri.plugin.runtime_versions import abilities
from pinfold.policy.model.container import QosClass
from pinfold.policy.model.kubelet_resources import linux_resources
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.nri.dialects import DIALECTS
from tests.unit.nri.plugin.session_node import MEMORY, Node, running
from tests.unit.nri.sized_pod import size, sized_pod

TELLING = [one for one in DIALECTS if one.updates_pods]


class PodNode:
    def __init__(self, node: Node, cpus: int) -> None:
        self.node = node
        self.pod = sized_pod(cpus)
        assert start_pods(node.runtime, (self.pod,), MEMORY) == []
        self.node.settled()

    def cpus(self, name: str) -> CpuSet:
        (found,) = [one.id for one in self.node.runtime.containers.values() if one.name == name]
        return CpuSet.parse(self.node.runtime.kernel[found].cpus)

    def resize(self, cpus: int) -> None:
        linux = resources_message(linux_resources(size(cpus), QosClass.GUARANTEED, None))
        self.node.runtime.update_pod(sandbox_message(self.pod).id, linux)
        self.node.settled()

    def show(self, cpus: int) -> None:
        """The kubelet gives containers without a limit the pod's new one."""
        linux = resources_message(linux_resources(size(cpus), QosClass.GUARANTEED, None))
        for one in [*self.node.runtime.containers.values()]:
            if one.name != "own":
                self.node.runtime.update(one.id, linux)
        self.node.settled()


telling = pytest.mark.parametrize("dialect", TELLING, ids=lambda one: f"{one.name}-{one.version}")


@telling
def test_a_pod_that_grows_has_more_to_share(dialect: Dialect) -> None:
    with running(dialect) as node:
        web = PodNode(node, 3)
        own, before = web.cpus("own"), web.cpus("a")
        assert len(before) == 2
        web.resize(5)
        assert before < web.cpus("a") == web.cpus("b")
        assert len(web.cpus("a")) == 4
        web.show(5)
        assert len(web.cpus("a")) == 4
        assert web.cpus("own") == own


@telling
def test_a_pod_that_shrinks_keeps_the_cpus_of_its_containers(dialect: Dialect) -> None:
    with running(dialect) as node:
        web = PodNode(node, 4)
        own = web.cpus("own")
        web.show(2)
        web.resize(2)
        assert web.cpus("own") == own
        assert len(web.cpus("a")) == 1


@telling
def test_a_size_without_room_is_refused_and_the_old_one_undoes_a_resize(dialect: Dialect) -> None:
    with running(dialect) as node:
        web = PodNode(node, 4)
        before = web.cpus("a")
        with pytest.raises(RequestError, match="no room to grow"):
            web.resize(9)
        assert web.cpus("a") == before
        web.resize(6)
        web.resize(6)
        assert len(web.cpus("a")) == 5
        web.resize(4)
        assert web.cpus("a") == before


@telling
def test_the_last_size_outlives_a_connection(dialect: Dialect) -> None:
    """The runtime goes on telling the size that the pod had at its creation."""
    with running(dialect) as node:
        web = PodNode(node, 3)
        web.resize(5)
        before = web.cpus("a")
        node.reconnect()
        assert web.cpus("a") == before
        (pen,) = node.plugin.events.policy.snapshot().pens.values()
        assert len(pen.exclusive) == 5


def test_containers_tell_of_a_resize_where_the_runtime_does_not() -> None:
    (dialect,) = [one for one in DIALECTS if one.version == "v1.7.24"]
    with running(dialect) as node:
        web = PodNode(node, 3)
        with pytest.raises(RequestError, match="UNIMPLEMENTED"):
            web.resize(5)
        web.show(5)
        assert len(web.cpus("a")) == 4
        web.show(2)
        assert len(web.cpus("a")) == 1


@pytest.mark.parametrize(
    ("runtime", "version", "expected"),
    [
        pytest.param("containerd", "v2.2.7", False, id="containerd 2.2 never tells"),
        pytest.param("containerd", "v2.3.0", True, id="containerd 2.3 is the first"),
        pytest.param("cri-o", "1.32.9", False, id="CRI-O 1.32 does not know it"),
        pytest.param("cri-o", "1.33.0", True, id="CRI-O 1.33 is the first"),
        pytest.param("other", "9.9.9", False, id="a runtime nobody knows is not asked"),
        pytest.param("containerd", "main", False, id="nor is one without numbers"),
    ],
)
def test_runtimes_that_tell_of_the_sizes_of_pods(
    runtime: str, version: str, *, expected: bool
) -> None:
    assert abilities(runtime, version, "v0.12.2").updates_pods is expected


def test_others_are_not_subscribed_to_it() -> None:
    assert EVENT_MASK < 1 << 11

"""What a container leaves behind is looked at before the next one comes."""

from collections.abc import Callable, Generator

import pytest

from pinfold.nri.dispatch.actuator import Actuator
from pinfold.nri.dispatch.events import Events
from pinfold.nri.dispatch.newcomer import Newcomer
from pinfold.nri.dispatch.owner import Owner
from pinfold.nri.dispatch.report import Happening
from pinfold.policy.books import pool_room
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, Resources
from pinfold.policy.model.kubelet_resources import LinuxResources
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.counted_calls import called_modules

_MACHINE = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:1G")


def _fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


def _pass_over(_happening: Happening) -> None:
    pass


class _Node:
    """A policy whose events come one by one, with time between them."""

    def __init__(self) -> None:
        self.owner = Owner(_fail)
        actuator = Actuator(_pass_over, lambda: 0.0)
        self.events = Events(Engine(_MACHINE, Config()), actuator, self.owner, _pass_over)

    def create(self, name: str) -> None:
        pod = Pod(id=PodId(name), name=name, namespace="default")
        resources = Resources(cpu_request_milli=500)
        one = Container(id=ContainerId(name), name="c", pod=pod, resources=resources)
        self.events.create(Newcomer(container=one, linux=LinuxResources()))

    def tidy(self) -> None:
        while self.owner.left:
            assert self.owner.tidy()


@pytest.fixture(name="node")
def fixture_node() -> Generator[_Node]:
    node = _Node()
    yield node
    node.owner.close()


def _measures(work: Callable[[], object]) -> bool:
    """Whether the room of the pools is measured meanwhile."""
    return pool_room.__name__ in called_modules(work)


@pytest.mark.parametrize("is_removed", [False, True], ids=["stopped", "removed"])
def test_the_room_is_measured_between_one_that_leaves_and_the_next(
    node: _Node, is_removed: bool
) -> None:
    for name in ("a", "b"):
        node.create(name)
        node.tidy()
    leave = node.events.remove if is_removed else node.events.stop
    assert not _measures(lambda: leave(ContainerId("a"))), "a runtime waits for that answer"
    assert _measures(node.tidy)
    assert not _measures(lambda: node.create("c"))

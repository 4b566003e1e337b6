"""Pods of which several containers crash together: each is back with what it had of its pod's."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from msgspec.structs import replace

from pinfold.policy.model.container import Container, ContainerId, Pod
from tests.unit.policy.engine.test_penning import GIB, Node, container, pod, whole


def again(one: Container) -> Container:
    return replace(one, id=ContainerId(f"{one.id}-1"))


def after_a_crash(node: Node, of: Pod, containers: Sequence[Container], order: str) -> list[str]:
    """The cpus of a pod's containers, which are back in this order."""
    for one in containers:
        node.stop(of, one.name)
    by_name = {one.name: one for one in containers}
    node.create(*[again(by_name[name]) for name in order])
    return [node.cpus(of, f"{one.name}-1") for one in containers]


@pytest.mark.parametrize(
    ("size", "own"),
    [
        pytest.param(4, (2, 1, 1), id="all of it is somebody's own"),
        pytest.param(4, (1, 1, 1, 2), id="the last one found too few of its own and has the rest"),
        pytest.param(5, (2, 1, 3, 1), id="one in the middle did"),
        pytest.param(3, (1, 2, 1), id="the last one left another none to have for itself"),
    ],
)
def test_who_had_cpus_of_its_pod_for_itself_has_the_same_ones_again(
    size: int, own: tuple[int, ...]
) -> None:
    """In whatever order they are back: who had none takes none of those that others had."""
    for order in map("".join, permutations("abcd"[: len(own)])):
        node, one = Node(), pod(whole(size), wish="pod-pool.pinfold.dev/pod=true")
        containers = [
            container(one, name, whole(count, memory=GIB // 2))
            for name, count in zip("abcd", own, strict=False)
        ]
        node.create(*containers)
        had = [node.cpus(one, each.name) for each in containers]
        assert after_a_crash(node, one, containers, order) == had, order


def test_who_shared_with_another_of_its_pod_takes_none_of_that_as_it_is_back() -> None:
    """The other one had them for itself until it came, and has to share them since."""
    node, one = Node(), pod(whole(3), wish="pod-pool.pinfold.dev/pod=true")
    containers = [
        container(one, name, whole(count, memory=GIB // 2))
        for name, count in zip("abc", (1, 2, 1), strict=True)
    ]
    node.create(*containers)
    assert [node.cpus(one, name) for name in "abc"] == ["4", "5-6", "5-6"]
    assert after_a_crash(node, one, containers[2:], "c") == ["5-6"]
    assert node.cpus(one, "b") == "5-6"


def test_who_is_back_with_fewer_cpus_of_its_pod_leaves_the_others_those_that_they_had() -> None:
    for order in permutations("abc"):
        node, one = Node(), pod(whole(4), wish="pod-pool.pinfold.dev/pod=true")
        containers = {
            name: container(one, name, whole(count, memory=GIB // 2))
            for name, count in zip("abc", (1, 1, 2), strict=True)
        }
        node.create(*containers.values())
        assert [node.cpus(one, name) for name in "abc"] == ["4", "5", "6-7"]
        for name in containers:
            node.stop(one, name)
        containers["c"] = replace(containers["c"], resources=whole(1, memory=GIB // 2))
        node.create(*[again(containers[name]) for name in order])
        assert [node.cpus(one, f"{name}-1") for name in "abc"] == ["4", "5", "6"], order


def test_an_init_container_that_has_ended_keeps_no_cpus_from_who_comes_then() -> None:
    node, one = Node(), pod(whole(4), wish="pod-pool.pinfold.dev/pod=true")
    node.create(container(one, "init", whole(3, memory=GIB)))
    had = node.cpus(one, "init")
    node.stop(one, "init")
    node.create(container(one, "a", whole(3, memory=GIB)))
    assert node.cpus(one, "a") == had


def system(name: str, cpus: int) -> Container:
    of = replace(pod(None, name=name), namespace="kube-system")
    return container(of, name, whole(cpus, memory=GIB // 2))


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_who_shared_reserved_cpus_does_so_again_and_who_found_them_full_does_not(
    order: str,
) -> None:
    node = Node()
    both = {name: system(name, 1) for name in "ab"}
    node.create(*both.values())
    had = {name: node.cpus(one.pod, name) for name, one in both.items()}
    assert had == {"a": "0", "b": "1-15"}
    for name, one in both.items():
        node.stop(one.pod, name)
    node.create(*[again(both[name]) for name in order])
    assert {name: node.cpus(one.pod, f"{name}-1") for name, one in both.items()} == had


def test_who_shares_more_than_there_is_of_reserved_cpus_stays_there_after_a_crash() -> None:
    """There was no room on others as it came, and there is by now."""
    node, one = Node("socket:1 core:4 mem:4G"), system("a", 2)
    full = container(pod(None, name="full"), "full", whole(3, memory=GIB))
    node.create(full, one)
    assert node.cpus(one.pod, "a") == "0"
    node.stop(full.pod, "full")
    node.stop(one.pod, "a")
    node.create(again(one))
    assert node.cpus(one.pod, "a-1") == "0"


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_who_had_the_nearest_memory_has_it_again_and_who_found_it_full_does_not(order: str) -> None:
    node, name = Node("socket:1 numa:2 core:4 mem:2G"), "pool-name.pinfold.dev/pod=NUMA node #1"
    both = {
        one: container(pod(None, name=one, wish=name), one, whole(1, memory=3 * GIB // 2))
        for one in "ab"
    }
    node.create(*both.values())
    assert (had := [mems(node, name) for name in "ab"]) == ["1", "0-1"]
    for one in reversed(both):
        node.stop(both[one].pod, one)
    node.create(*[again(both[name]) for name in order])
    assert [mems(node, f"{name}-1") for name in "ab"] == had


def test_who_is_back_with_less_memory_is_not_on_nodes_that_only_more_of_it_needed() -> None:
    node, name = Node("socket:1 numa:2 core:4 mem:2G"), "pool-name.pinfold.dev/pod=NUMA node #1"
    near, wide = (
        container(pod(None, name=one, wish=name), one, whole(1, memory=3 * GIB // 2))
        for one in "ab"
    )
    node.create(near, wide)
    assert mems(node, "b") == "0-1"
    node.stop(wide.pod, "b")
    node.create(replace(again(wide), resources=whole(1, memory=GIB // 4)))
    assert mems(node, "b-1") == "1"


def mems(node: Node, name: str) -> str:
    pinning = node.engine.pinning(ContainerId(f"{name[0]}-{name}"))
    assert pinning is not None
    return str(pinning.mems)


def test_a_group_of_which_several_crash_is_back_on_the_same_cpus_whoever_is_first() -> None:
    group = [pod(None, name=name, wish="group.pinfold.dev/pod=front") for name in "pqr"]
    members = [container(of, "m", whole(2, memory=GIB // 8)) for of in group]
    beside = pod(None, name="beside")
    shares = replace(whole(1, memory=GIB // 8), cpu_request_milli=1500, cpu_limit_milli=1500)
    for order in permutations(range(3)):
        node = Node("socket:1 l3:4 core:2 thread:2 mem:8G")
        node.create(*members, container(beside, "x", shares))
        assert [node.cpus(of, "m") for of in group] == ["2-7"] * 3
        for of in group:
            node.stop(of, "m")
        node.create(*[again(members[number]) for number in order])
        assert [node.cpus(of, "m-1") for of in group] == ["2-7"] * 3, order
        assert node.cpus(beside, "x") == "8-11"

"""A simulated runtime finds its containers by their names."""

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.scenarios.simulated_runtime import Running, Runtime
from pinfold.topology.made.spec import machine_from_spec


def test_the_newest_of_one_name_is_found() -> None:
    runtime = Runtime(machine_from_spec("socket:1 numa:2 core:2 thread:2 mem:2G"))
    for container_id in ("own", "own-2"):
        again = Container(
            id=ContainerId(container_id), name="own", pod=Pod(id=PodId("own"), name="own")
        )
        runtime.running[again.id] = Running(again)
    found = runtime.find("default/own/own")
    assert found is not None
    assert found.container is again
    assert runtime.by_key()["own"].container is again

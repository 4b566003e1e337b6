"""A daemon whose runtime goes and comes back, with its containers running on meanwhile."""

from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.cmd.daemon.paper_node import PaperNode, guaranteed

MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")


def test_who_was_put_elsewhere_while_the_runtime_was_away_is_led_back() -> None:
    """Though another one was removed: nobody but other programs can have done that."""
    node = PaperNode(MACHINE)
    node.start()
    node.run(guaranteed("moved", 2000), guaranteed("gone"))
    moved, cpus = node.id_of("moved"), node.cpus("moved")
    free = node.daemon.engine.supply.usable - CpuSet.parse(cpus)
    gone = node.runtime.containers[node.id_of("gone")].pod_sandbox_id
    node.lose_runtime()
    node.runtime.remove_pod(gone)
    node.runtime.update_cpuset(moved, str(CpuSet.collect([*free][-2:])), "")
    node.find_runtime()
    assert str(node.grant("moved").exclusive) == node.cpus("moved") == cpus
    node.stop()

"""What the kubelet counts as fitting the node is never refused, however it came about."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant
from pinfold.topology.made.spec import machine_from_spec

MACHINES = (
    machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:64G"),
    machine_from_spec("socket:1 l3:4 core:4 thread:2 mem:64G"),
    machine_from_spec("socket:4 core:2 mem:64G"),
    machine_from_spec("socket:1 core:2 mem:64G"),
)
REQUESTS = {
    QosClass.GUARANTEED: (100, 200, 1000, 1000, 1200, 2000, 3000, 4200),
    QosClass.BURSTABLE: (1, 50, 100, 900, 1800),
    QosClass.BEST_EFFORT: (0,),
}
EVENTS = st.lists(
    st.tuples(st.sampled_from(tuple(QosClass)), st.integers(0, 7), st.integers(0, 5)),
    min_size=5,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(machine=st.sampled_from(MACHINES), events=EVENTS)
def test_what_fits_the_budget_is_placed(
    machine: object, events: list[tuple[QosClass, int, int]]
) -> None:
    where = next(one for one in MACHINES if one is machine)
    engine = Engine(where, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    budget_milli = 1000 * (len(where.online) - 1)
    running: dict[ContainerId, int] = {}
    for number, (qos, choice, action) in enumerate(events):
        if action == 0 and running:
            container_id = sorted(running)[choice % len(running)]
            budget_milli += running.pop(container_id)
            engine.stop(container_id)
            continue
        milli = REQUESTS[qos][choice % len(REQUESTS[qos])]
        if milli > budget_milli:
            continue
        pod = Pod(id=PodId(f"p{number}"), name=f"p{number}", uid=f"p{number}", qos=qos)
        container = Container(
            id=ContainerId(f"c{number:03}"),
            name="c",
            pod=pod,
            resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli or None),
        )
        decision = engine.create(container)
        assert isinstance(decision.result, Grant), decision.result
        budget_milli -= milli
        running[container.id] = milli
    engine.check()
    taken = sum(grant.exclusive.mask for grant in engine.grants.values())
    for container_id, grant in engine.grants.items():
        pinning = engine.pinning(container_id)
        assert pinning is not None
        assert pinning.cpus
        assert not pinning.cpus.mask & taken & ~grant.exclusive.mask

"""Objections of rules to pools: what they name, and what it costs to find that."""

from msgspec.structs import replace

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.model.request import Request
from pinfold.policy.placing.judging.barrier import Barrier, BarrierOwners
from pinfold.policy.placing.openings.objections import ObjectionWording
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level
from pinfold.topology.sets.cpuset import CpuSet
from tests.unit.counted_calls import count_calls

BOOKS = Books(machine_from_spec("socket:2 numa:4 core:8 thread:2 mem:64G"), Config())
LAST = max(pool.id for pool in BOOKS.tree.pools if not pool.children)


def wording(first: int = 1) -> ObjectionWording:
    """One owner of a rule on each core from the first one on, the last ones last."""
    domains, presence = BOOKS.domains, dict[ContainerId, tuple[Container, int]]()
    for number, mask in enumerate(domains.masks(Level.CORE)[first:]):
        pod = Pod(id=PodId(f"p{number}"), name=f"p{number}", namespace="default")
        one = Container(id=ContainerId(f"{number}"), name="c", pod=pod)
        presence[one.id] = one, mask & -mask
    owners = BarrierOwners.of(presence, can_break=False, are_systems=False)
    forbidden = domains.covering(Level.CORE, owners.cpus)
    barrier = Barrier(
        text="the rule",
        level=Level.CORE,
        can_break=False,
        forbidden=forbidden,
        insisting=owners,
        domains=domains,
    )
    return ObjectionWording(
        request=Request(
            container_id=ContainerId("newcomer"), qos=QosClass.BURSTABLE, shared_milli=100
        ),
        tree=BOOKS.tree,
        left=domains.everything & ~forbidden,
        own=(),
        judged=(),
        barriers=(barrier,),
        domains=domains,
    )


def test_a_pool_is_dropped_for_all_owners_who_keep_the_newcomer_from_some_of_it() -> None:
    found = wording()
    usable = BOOKS.tree.pools[LAST].cpus.mask
    [barrier] = found.barriers
    near = [one.owner for one in barrier.restrictions() if usable & one.forbidden]
    assert len(near) == 8 < len(barrier.owners)

    told = found.objection(LAST)
    assert told.criterion == f"the rule of {near[0]} and 7 others"
    assert told.wanted == f"a core without {', '.join(near[:4])} and 4 more"


def test_pools_of_which_one_rule_closes_all_are_dropped_for_all_its_owners() -> None:
    found = wording(first=0)
    [barrier] = found.barriers
    told = {found.objection(pool.id) for pool in BOOKS.tree.pools}

    assert {one.criterion for one in told} == {
        f"the rule of default/p0/c and {len(barrier.owners) - 1} others"
    }


def test_owners_who_are_elsewhere_cost_an_objection_no_call() -> None:
    found = wording()
    found.objection(LAST)

    assert count_calls(lambda: found.objection(LAST)) < 40


def test_a_pool_of_which_rules_leave_cpus_of_one_child_alone_is_dropped_for_being_too_wide() -> (
    None
):
    first, second = (BOOKS.tree.pools[one] for one in BOOKS.tree.root.children)
    left = CpuSet(BOOKS.domains.masks(Level.CORE)[3])
    found = replace(wording(), barriers=(), left=left.mask)
    assert str(found.objection(BOOKS.tree.root.id)) == (
        f"CPUs where rules hold: wanted some outside {first.name}, available {left}, all inside it"
    )
    assert found.objection(second.id).available == "none"

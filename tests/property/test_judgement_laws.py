"""Laws of judgements: owners of rules worked out together are judged as if each were alone."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.configuration.affinity_fields import AntiAffinityLimits
from pinfold.policy.configuration.config import Config
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.request import Request
from pinfold.policy.placing.judging.barrier import Barrier, BarrierOwners
from pinfold.policy.placing.judging.guard import guard
from pinfold.policy.placing.judging.judgement import Companions, Judgement
from pinfold.policy.placing.judging.restriction import Restriction
from pinfold.policy.placing.openings.openings import OpeningSearch
from pinfold.policy.pools.domains import Domains
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.rules.pulls import Pulls
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level
from pinfold.topology.sets.cpuset import CpuSet

MACHINE = machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G")
DOMAINS = Domains(MACHINE, MACHINE.online)
CPUS = len(MACHINE.online)
LEVELS = (Level.SOCKET, Level.NUMA, Level.CORE)
Reading = list[tuple[str, Level, tuple[ContainerId, ...], int]]


def container(number: int, namespace: str) -> Container:
    pod = Pod(id=PodId(f"p{number}"), name=f"p{number}", namespace=namespace)
    return Container(id=ContainerId(f"c{number}"), name="c", pod=pod)


@st.composite
def barriers(draw: st.DrawFn) -> list[Barrier]:
    """Rules of crowds, of which several have the same, and owners on the same cpus."""
    masks = draw(st.lists(st.integers(1, (1 << CPUS) - 1), min_size=1, max_size=4))
    crowds: list[BarrierOwners] = []
    for number in range(draw(st.integers(1, 3))):
        some = draw(st.lists(st.sampled_from(masks), min_size=1, max_size=5))
        space = draw(st.sampled_from(("x", "y", "own")))
        presence = {
            one.id: (one, cpus)
            for place, cpus in enumerate(some)
            for one in (container(10 * number + place, space),)
        }
        crowds.append(BarrierOwners.of(presence, draw(st.booleans()), draw(st.booleans())))
    found: list[Barrier] = []
    for number in range(draw(st.integers(1, 6))):
        owners, level = draw(st.sampled_from(crowds)), draw(st.sampled_from(LEVELS))
        forbidden = DOMAINS.covering(level, owners.cpus)
        found.append(
            Barrier(
                text=f"rule {number}",
                level=level,
                can_break=owners.can_break,
                forbidden=forbidden,
                insisting=owners,
                domains=DOMAINS,
            )
        )
    return found


def guarded_one_by_one(found: Sequence[Barrier], limit: int) -> tuple[Reading, Reading]:
    """What is kept and what is preferred, each owner of each rule asked by itself."""
    kept, preferred = Reading(), Reading()
    blocked: dict[str, int] = {}
    for space in dict.fromkeys(one.insisting.containers[0].pod.namespace for one in found):
        some = [one for one in found if one.insisting.containers[0].pod.namespace == space]
        limited = [one for one in some if space != "own" and not one.insisting.are_systems]
        everything = 0
        for one in limited:
            everything |= one.forbidden
        for one in some:
            inside, outside, forbidden = list[ContainerId](), list[ContainerId](), 0
            for owner_id, (_, cpus) in one.owners.items():
                mask = DOMAINS.covering(one.level, cpus)
                before = blocked.get(space, 0)
                is_free = one not in limited or everything.bit_count() <= limit
                if is_free or (before | mask).bit_count() <= limit:
                    blocked[space] = before if is_free else before | mask
                    forbidden |= mask
                    inside.append(owner_id)
                else:
                    outside.append(owner_id)
            if inside:
                kept.append((one.text, one.level, tuple(inside), forbidden))
            if outside:
                preferred.append((one.text, one.level, tuple(outside), one.forbidden))
    return kept, preferred


def reading(found: Sequence[Barrier]) -> Reading:
    return [(one.text, one.level, tuple(one.owners), one.forbidden) for one in found]


@given(barriers(), st.integers(0, 100))
@settings(max_examples=150, deadline=None)
def test_the_guard_divides_crowds_as_it_divides_owners(found: list[Barrier], percent: int) -> None:
    limits = AntiAffinityLimits(max_blocked_cpus=f"{percent}%")
    config = replace(Config(), anti_affinity_limits=limits)
    kept, preferred = guard(found, container(99, "own"), config, CPUS)
    expected = guarded_one_by_one(found, limits.max_blocked("x", CPUS))
    assert (sorted(reading(kept)), sorted(reading(preferred))) == (
        sorted(expected[0]),
        sorted(expected[1]),
    )


@given(barriers(), st.integers(1, (1 << CPUS) - 1), st.data())
@settings(max_examples=150, deadline=None)
def test_rules_that_are_still_told_are_those_told_anew_that_were_told(
    found: list[Barrier], cpus: int, data: st.DataObject
) -> None:
    judgement = Judgement(
        barriers=tuple(found[1:]), passed=tuple(found[:1]), pulls=Pulls(DOMAINS), domains=DOMAINS
    )
    anew = judgement.told_at(cpus, 0)
    everywhere = judgement.told_at(-1, 0)
    texts = data.draw(st.lists(st.sampled_from([one.unmet_text for one in everywhere])))
    expected = [one for one in anew if any(map(one.is_told_by, texts))]
    assert list(judgement.still_told(texts, cpus, 0)) == expected


PICKER = CpuPicker(MACHINE)
TREE = build_tree(MACHINE, read_supply(MACHINE, Config(), PICKER))
CPU_SETS = st.integers(0, (1 << CPUS) - 1)


@settings(max_examples=200)
@given(
    added=st.lists(st.tuples(st.sampled_from(LEVELS), CPU_SETS, st.integers(-9, 9)), max_size=4),
    regions=st.lists(CPU_SETS | st.just(-1), min_size=len(TREE.pools), max_size=len(TREE.pools)),
    taken=CPU_SETS,
    exclusive=st.integers(0, 2),
)
def test_a_pool_is_preferred_as_much_as_what_is_left_of_its_region(
    added: Sequence[tuple[Level, int, int]], regions: Sequence[int], taken: int, exclusive: int
) -> None:
    ledger, pulls = Ledger(TREE, PICKER), Pulls(DOMAINS)
    own = CpuSet(taken & TREE.root.sharable.mask)
    ledger.add(Grant(container_id=ContainerId("c"), pool_id=TREE.root.id, exclusive=own))
    for level, cpus, weight in added:
        pulls.add(level, cpus, weight)
    request = Request(
        container_id=ContainerId("n"),
        qos=QosClass.BURSTABLE,
        exclusive=exclusive,
        shared_milli=0 if exclusive else 10,
    )
    judgement = Judgement(pulls=pulls, domains=DOMAINS)
    search = OpeningSearch(request=request, judgement=judgement, tree=TREE, ledger=ledger)
    places = [one & mask for one, mask in zip(regions, TREE.masks, strict=True)]
    found = search.preferences(places) or [0] * len(places)
    assert [*found] == [search.preference(*one) for one in enumerate(places)]


def owed(some: Sequence[Companions], region: int, sure: int) -> int:
    """The cpus that are left to companions, domain by domain in the order of the rules.

    `sure`: cpus that nobody takes anyway.
    """
    kept = 0
    for one in dict.fromkeys((one.level, one.shared, one.own) for one in some):
        level, shared, own = one
        for domain in DOMAINS.masks(level):
            here = shared & domain
            if here and domain & region and not domain & own and not kept & here:
                kept |= 1 << ((here & sure or here).bit_length() - 1)
    return kept & region


@settings(deadline=None, max_examples=500)
@given(data=st.data())
def test_what_is_owed_to_companions_is_what_each_domain_by_itself_owes(data: st.DataObject) -> None:
    masks = st.integers(0, (1 << CPUS) - 1)
    rule = Restriction(
        text="rule", owner="o", owner_id=ContainerId("o"), can_break=False, wanted="it"
    )
    drawn = st.tuples(st.sampled_from(LEVELS), st.just(0) | masks, masks)
    companions = tuple(
        Companions(level=level, own=own & ~shared, shared=shared, rule=rule)
        for level, own, shared in data.draw(st.lists(drawn, max_size=3))
    )
    sure = data.draw(st.just(0) | masks)
    judgement = Judgement(companions=companions, pulls=Pulls(DOMAINS), kept=sure, domains=DOMAINS)
    region = data.draw(masks)
    found = judgement.owed(region)
    assert found == owed(companions, region, sure)
    assert found.bit_count() <= judgement.owed_at_most

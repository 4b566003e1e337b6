"""The choice of a pool agrees with the order of the ranks, of which it makes none."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pinfold.policy.memory.memory_choice import ZoneSummary
from pinfold.policy.model.container import ContainerId, QosClass
from pinfold.policy.model.cpu_preference import CpuPriority
from pinfold.policy.model.grant import Dropped
from pinfold.policy.model.request import Isolation, Request
from pinfold.policy.placing.choice import choose
from pinfold.policy.placing.columns import ranks
from pinfold.policy.placing.lineup import MILLI, Demand, Lineup
from pinfold.policy.placing.rank import Contest, Rank, burst_distances
from pinfold.policy.pools.pool_masks import grades

NUMBERS = st.integers(-2, 2)
ZONES = st.builds(
    ZoneSummary, st.just(1), st.integers(1, 2), st.booleans(), st.booleans(), st.booleans()
)
TOO_FAR = Dropped("memory fails strict hints", "0", "1")
NO_MEMORY = Dropped("memory", "5 bytes", "none is left")

requests = st.builds(
    Request,
    container_id=st.just(ContainerId("c")),
    qos=st.just(QosClass.GUARANTEED),
    exclusive=st.integers(0, 1),
    shared_milli=st.integers(0, 1),
    is_unlimited=st.booleans(),
    awaits_friends=st.booleans(),
    cpu_limit_milli=st.none() | st.just(0),
    memory_limit_bytes=st.none() | st.just(5),
    isolation=st.sampled_from(Isolation),
    priority=st.sampled_from(CpuPriority),
)


@st.composite
def contests(draw: st.DrawFn) -> Contest:
    size = draw(st.integers(2, 6))

    def column() -> list[int]:
        return draw(st.lists(NUMBERS, min_size=size, max_size=size))

    depth, inward = column(), column()
    zones = draw(st.lists(ZONES, min_size=size, max_size=size))
    are_known = draw(st.booleans())
    return Contest(
        request=draw(requests),
        zeros=(0,) * size,
        ids=tuple(range(size)),
        depth=depth,
        inward=inward,
        around=draw(st.lists(st.integers(-1, size - 1), min_size=size, max_size=size)),
        room=column(),
        whole_milli=draw(NUMBERS),
        # As a rule every pool has so much less.
        shared=draw(st.just(()) | st.just(column())),
        isolated=column(),
        zones=zones,
        # Grades say what the columns say.
        depth_grades=grades(depth) if are_known else (),
        burst_grades=grades(burst_distances(inward)) if are_known else (),
        node_grades=grades([one.node_count for one in zones]) if are_known else (),
        affinities=column() if draw(st.booleans()) else (),
        hints=list(zip(column(), column(), strict=True)) if draw(st.booleans()) else (),
        misfits_class=column() if draw(st.booleans()) else (),
        neighbours=column(),
        free_of_priority=column() if draw(st.booleans()) else (),
        preferred=column() if draw(st.booleans()) else (),
    )


@given(contests(), st.data())
@settings(deadline=None, max_examples=200)
def test_the_smallest_rank_wins_by_the_first_difference_to_the_next(
    contest: Contest, data: st.DataObject
) -> None:
    pools = sorted(data.draw(st.sets(st.sampled_from(contest.ids), min_size=2)))
    winner, runner_up, *_ = sorted(ranks(contest)[pool_id] for pool_id in pools)
    pairs = zip(Rank._fields, winner, runner_up, strict=True)
    first = next(name for name, one, other in pairs if one != other)
    pool_id, decided_by, rivals = choose(contest, pools)
    assert (pool_id, decided_by) == (winner.pool_id, first)
    assert set(rivals) < set(pools)
    second, *_ = choose(contest, rivals, decided_by) if len(rivals) > 1 else rivals
    assert second == runner_up.pool_id


@st.composite
def lineups(draw: st.DrawFn) -> Lineup:
    contest = draw(contests())
    size = len(contest.ids)
    columns = st.lists(NUMBERS, min_size=size, max_size=size)
    return Lineup(
        contest=contest,
        names=[str(pool_id) for pool_id in contest.ids],
        demands=draw(
            st.lists(
                st.builds(
                    Demand, st.sampled_from("ab"), NUMBERS, columns, st.sampled_from(("", MILLI))
                ),
                max_size=2,
            ).map(tuple)
        ),
        zones=[NO_MEMORY if draw(st.integers(0, 2)) == 0 else zone for zone in contest.zones],
        strict=draw(st.dictionaries(st.sampled_from(contest.ids), st.just(TOO_FAR), max_size=2)),
    )


@given(lineups())
@settings(deadline=None, max_examples=200)
def test_a_pool_is_feasible_or_has_a_reason(lineup: Lineup) -> None:
    found = lineup.candidates()
    assert lineup.feasible() == [pool for pool, one in enumerate(found) if isinstance(one, Rank)]
    for pool_id, (one, rank) in enumerate(zip(found, ranks(lineup.contest), strict=True)):
        short = [demand.criterion for demand in lineup.demands if _is_short(demand, pool_id)]
        if short:
            assert isinstance(one, Dropped)
            assert one.criterion == short[0]
        elif lineup.zones[pool_id] is NO_MEMORY:
            assert one is NO_MEMORY
        else:
            assert one == lineup.strict.get(pool_id, rank)


@given(lineups(), st.sampled_from([1, 100, 2**20, 2**40, 2**70]))
@settings(deadline=None, max_examples=200)
def test_a_packed_lineup_says_the_same(lineup: Lineup, scale: int) -> None:
    wide = [scale * one for one in lineup.contest.affinities]
    lineup = structs.replace(lineup, contest=structs.replace(lineup.contest, affinities=wide))
    packed = lineup.packed()
    assert packed.candidates() == lineup.candidates()
    assert packed.feasible() == lineup.feasible()
    assert packed.packed() == packed
    pools = list(lineup.contest.ids)
    assert choose(packed.contest, pools) == choose(lineup.contest, pools)


def _is_short(demand: Demand, pool_id: int) -> bool:
    return demand.available[pool_id] < demand.wanted

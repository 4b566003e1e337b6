"""Laws of pulls: a sum of means over domains, whatever shortcut it is found by."""

from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.pools.domains import Domains
from pinfold.policy.rules.pulls import SCALE, Pulls
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Level
from pinfold.topology.sets.cpuset import iter_bits, lowest_cpu
from tests.unit.counted_calls import count_calls

MACHINE = machine_from_spec("socket:2 numa:2 l3:2 core:2 thread:2 mem:1G")
DOMAINS = Domains(MACHINE, MACHINE.online)
LEVELS = (Level.SOCKET, Level.NUMA, Level.L3, Level.CORE)
MASKS = st.integers(1, MACHINE.online.mask)
NARROW = st.sampled_from([one for level in LEVELS for one in DOMAINS.masks(level)])
ADDED = st.lists(
    st.tuples(st.sampled_from(LEVELS), MASKS | NARROW, st.sampled_from((-300, -7, 1, 40, 100))),
    max_size=5,
)


def drawn(added: list[tuple[Level, int, int]]) -> Pulls:
    pulls = Pulls(DOMAINS)
    for level, cpus, weight in added:
        pulls.add(level, cpus, weight)
    return pulls


def score(added: list[tuple[Level, int, int]], cpus: int) -> int:
    """The same sum, domain by domain."""
    total = 0
    for level in dict.fromkeys(level for level, _, _ in added):
        here = [one for one in DOMAINS.masks(level) if one & cpus]
        weights = [
            sum(weight for at, of, weight in added if at is level and of & one) for one in here
        ]
        total += sum(weights) * SCALE // len(here)
    return total


@given(ADDED, MASKS | NARROW)
def test_a_score_is_the_sum_over_levels_of_the_mean_over_domains(
    added: list[tuple[Level, int, int]], cpus: int
) -> None:
    assert drawn(added).score(cpus) == score(added, cpus)


@given(ADDED, MASKS | NARROW, st.integers(1, 6))
def test_the_best_cpus_are_the_highest_single_ones_and_all_that_are_alike(
    added: list[tuple[Level, int, int]], cpus: int, count: int
) -> None:
    pulls = drawn(added)
    best = pulls.best(cpus, count)
    assert not best & ~cpus
    assert best.bit_count() >= min(count, cpus.bit_count())
    inside = [score(added, 1 << one) for one in iter_bits(best)]
    outside = [score(added, 1 << one) for one in iter_bits(cpus & ~best)]
    assert not outside or max(outside) < min(inside)


@given(ADDED, MASKS | NARROW, st.integers(1, 6))
def test_the_score_of_the_best_cpus_is_that_of_all_of_them_together(
    added: list[tuple[Level, int, int]], cpus: int, count: int
) -> None:
    pulls = drawn(added)
    assert pulls.best_score(cpus, count) == score(added, pulls.best(cpus, count))


@given(ADDED, st.sampled_from(LEVELS), st.data())
def test_a_part_of_a_domain_scores_as_each_of_its_cpus_where_they_are_ranked_by_these(
    added: list[tuple[Level, int, int]], level: Level, data: st.DataObject
) -> None:
    pulls = drawn(added)
    part = data.draw(st.sampled_from(DOMAINS.masks(level))) & data.draw(MASKS)
    alike = all(score(added, part) == score(added, 1 << one) for one in iter_bits(part))
    assert alike or not pulls.rank_by_cpu(level)
    assert pulls.rank_by_cpu(Level.CORE)


@given(ADDED, st.dictionaries(MASKS | NARROW, st.integers(1, 9), max_size=4), MASKS)
def test_containers_pull_together_as_one_by_one(
    added: list[tuple[Level, int, int]], sizes: dict[int, int], cpus: int
) -> None:
    together = drawn(added)
    for level in (Level.L3, Level.CORE, Level.CORE):
        together.add_all(level, sizes, 3)
    single = [
        (level, one, 3 * count * times)
        for level, times in ((Level.L3, 1), (Level.CORE, 2))
        for one, count in sizes.items()
    ]
    assert together.score(cpus) == score([*added, *single], cpus)
    assert bool(together) == bool(added or sizes)


def test_where_scores_are_too_many_cpus_are_ranked_roughly_by_some_levels() -> None:
    machine = machine_from_spec("socket:1 numa:64 core:2 thread:1 mem:1G")
    domains = Domains(machine, machine.online)
    pulls = Pulls(domains)
    for level in (Level.CORE, Level.NUMA):
        for number, cpus in enumerate(domains.masks(level)):
            pulls.add(level, cpus, number)
    assert not pulls.rank_by_cpu(Level.CORE)
    assert pulls.rank_by_cpu(Level.CORE, is_rough=True)
    assert not pulls.rank_by_cpu(Level.NUMA, is_rough=True)
    assert pulls.best(machine.online.mask, 1) == domains.masks(Level.CORE)[-1]


def test_the_firsts_of_a_level_name_the_domain_of_each_cpu() -> None:
    for level in Level:
        holders, firsts = DOMAINS.holders(level), DOMAINS.firsts(level)
        assert {cpu: firsts[cpu] for cpu in holders} == {
            cpu: lowest_cpu(mask) for cpu, mask in holders.items()
        }


def test_very_many_who_share_wide_sets_of_cpus_cost_no_step_for_each_domain() -> None:
    machine = machine_from_spec("socket:4 numa:4 l3:4 core:8 thread:2 mem:4G")
    pulls = Pulls(Domains(machine, machine.online))
    everything = machine.online.mask
    pulls.add_all(
        Level.CORE, {everything >> 16 * number << 16 * number: 1 for number in range(60)}, 7
    )
    assert count_calls(lambda: pulls.score(everything)) < 20 * len(machine.cores)

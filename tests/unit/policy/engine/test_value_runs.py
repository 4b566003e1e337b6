"""Runs of values are a sequence like any other, whatever they were made from."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from pinfold.policy.engine.gauges.value_runs import ValueRuns

STEPS = st.lists(st.sampled_from((0, 0, 0, 1, 5, -2)), min_size=1, max_size=12)


@given(STEPS)
def test_runs_are_the_sums_of_their_steps(steps: list[int]) -> None:
    runs, sums = ValueRuns.of_steps(steps), list(accumulate(steps[:-1]))

    assert list(runs) == sums
    assert len(runs) == len(sums)
    assert [runs[index] for index in range(len(sums))] == sums
    assert runs[1:3] == sums[1:3]
    assert list(runs.spread(map(str, runs.values))) == list(map(str, sums))


@given(STEPS, STEPS)
def test_runs_are_equal_where_their_values_are(first: list[int], second: list[int]) -> None:
    one, other = ValueRuns.of_steps(first), ValueRuns.of_steps(second)

    assert (one == other) == (list(one) == list(other))

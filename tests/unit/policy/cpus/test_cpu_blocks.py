"""Groups of cpus, asked all at once."""

from functools import partial

import pytest

from pinfold.policy.cpus.cpu_blocks import CpuBlocks
from tests.unit.counted_calls import count_lines


@pytest.mark.parametrize(("groups", "size"), [(8, 512), (64, 64)])
def test_free_cpus_of_all_groups_are_counted_in_a_few_steps_for_each_cpu_of_one(
    groups: int, size: int
) -> None:
    blocks = CpuBlocks([((1 << size) - 1) << size * number for number in range(groups)])
    free = (1 << groups * size) - 1
    blocks.by_free_count(free)  # Offsets are found once.
    assert count_lines(lambda: blocks.by_free_count(free)) < 30 * size


@pytest.mark.parametrize(("groups", "size"), [(16, 16), (64, 64), (32, 16)])
def test_groups_of_nearly_as_many_cpus_as_there_are_groups_are_asked_one_by_one(
    groups: int, size: int
) -> None:
    """A mask of all cpus would be shifted for each cpu of a group, which takes twice as long."""
    blocks = CpuBlocks([((1 << size) - 1) << size * number for number in range(groups)])
    for ask in (blocks.touched, blocks.covering, blocks.members, blocks.by_free_count, blocks.idle):
        ask(1)  # Once the groups are filed by their lowest cpus.
        assert count_lines(partial(ask, 1)) < 2 * groups + 16

"""Groups of cpus, asked all at once."""

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

"""Law of parts that are held against a request together: a look at each one says the same.

In worlds small enough for a look at each, where rules leave parts of many pools.
"""

import os
from collections.abc import Callable, Mapping, Sequence

import pytest

from pinfold.policy.books.cpu_ledger import Ledger
from pinfold.policy.model.request import Request
from pinfold.policy.placing.judging.judgement import Judgement
from pinfold.policy.placing.openings import openings
from pinfold.policy.placing.openings.openings import OpeningSearch
from tests.property.test_promise_laws import PromisingWorld
from tests.property.test_rule_laws import MACHINES, World

SEEDS = (*range(int(os.environ.get("PINFOLD_SURE_SEEDS", "8"))), 20, 26)
"""In the last two a pool has more to give than its own numbers say, which count whole cpus."""
STEPS = 60
Parts = Mapping[int, Sequence[int]]


class Looks:
    """What is known of parts together, each beside what a look at it says."""

    def __init__(self) -> None:
        self.counts = {True: 0, False: 0}
        """How often a part was known to fit, and a pool to have none that does."""
        self._together: Callable[..., Mapping[int, int]] = vars(openings)["sure_parts"]

    def sure_parts(
        self,
        request: Request,
        judgement: Judgement,
        ledger: Ledger,
        parts: Parts,
        regions: Sequence[int],
    ) -> Mapping[int, int]:
        found = self._together(request, judgement, ledger, parts, regions)
        search = OpeningSearch(
            request=request, judgement=judgement, tree=ledger.tree, ledger=ledger
        )
        for pool_id, part in found.items():
            fitting = [one for one in parts[pool_id] if search.fits(pool_id, one)]
            assert part in fitting if part else not fitting, (pool_id, request)
            self.counts[part > 0] += 1
        return found


@pytest.mark.parametrize("kind", [World, PromisingWorld])
def test_what_is_known_of_parts_together_is_what_a_look_at_each_says(
    kind: type[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks()
    monkeypatch.setattr(openings, "sure_parts", looks.sure_parts)
    monkeypatch.setattr(openings, "_FEW_PARTS", 0)
    for seed in SEEDS:
        world = kind(MACHINES[seed % len(MACHINES)], seed)
        for _ in range(STEPS):
            world.step()
    assert all(looks.counts.values()), looks.counts

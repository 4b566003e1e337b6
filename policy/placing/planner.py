"""Plans for known containers without a pen: what draws them where, and the place that is left."""

from collections.abc import Callable, Sequence

from msgspec import structs

from ..books.books import Books
from ..model.container import Container
from ..model.last_place import LastPlace
from ..text.errors import Problem
from ..tuning.effects import Occupancy
from ..tuning.turbo import prefer_turbo
from .classifier import Classified, grave_problems
from .judging.judge import Judge
from .judging.scene import Scene
from .judging.uncounted_rules import UncountedFirmly, guard_problems
from .placer import Failure, Placement
from .restart import MADE_WAY, RestartPlacer


class Planner:
    """Plans places from what the books have left; a plan changes nothing."""

    def __init__(self, books: Books, judge: Judge, restarts: RestartPlacer) -> None:
        """Reads the books, never changes them."""
        self._books = books
        self._judge = judge
        self._restarts = restarts

    def objection(
        self, container: Container, problems: Sequence[Problem], *, was_there: bool = False
    ) -> Failure | None:
        """The failure of a container that is refused for what is wrong with its texts.

        Not for rules that do not count where it `was_there` already: see `plan`.
        """
        bad = grave_problems(problems, container, self._books.config)
        if was_there:
            bad = tuple(one for one in bad if not isinstance(one, UncountedFirmly))
        return Failure.of("; ".join(map(str, bad))) if bad else None

    def plan(
        self,
        container: Container,
        classified: Classified,
        last: LastPlace | None,
        occupancy: Callable[[], Occupancy],
        *,
        runs: bool = False,
        scene: Scene | None = None,
    ) -> tuple[Placement | Failure, Classified]:
        """The best place for a known container, and its demand with what came up meanwhile.

        `last`: the place that it had before a restart. `occupancy`: the cpus that containers have
        for themselves. No rule between containers refuses one that `runs`: at worst some break.
        `scene`: that of a plan before it, where nobody's place has changed since.
        """
        problems = classified.problems
        affinities = self._books.affinity.affinities(container, classified.rules)
        if not affinities.is_whole:
            problems = (*problems, *affinities.problems(container))
        config = self._books.config
        request = prefer_turbo(classified.request, classified.cpu_class, config, occupancy)
        judgement = self._judge.judge(container, classified.placement, request, scene)
        if judgement is not None and (judgement.guarded or judgement.uncounted):
            problems = (*problems, *guard_problems(judgement, container))
        if problems is not classified.problems:
            classified = structs.replace(classified, problems=problems)
        placement = self._restarts.plan(request, affinities.weights, judgement, last, runs=runs)
        if problems and last is not None and not runs and not _is_back(placement, last):
            # Elsewhere it is judged as one that comes.
            firm = [one for one in problems if isinstance(one, UncountedFirmly)]
            placement = self.objection(container, firm) or placement
        return placement, classified


def _is_back(placement: Placement | Failure, last: LastPlace) -> bool:
    """Whether a place is the one that a container had before its restart, or as much beside it."""
    if isinstance(placement, Failure):
        return False
    found, held = placement.booking.grant, last.grant
    has_own = found.exclusive == held.exclusive or placement.decided_by == MADE_WAY
    return has_own and found.pool_id == held.pool_id

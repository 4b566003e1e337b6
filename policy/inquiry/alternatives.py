"""Alternatives of a container: the smallest changes of what it asks for that give another outcome.

Found by asking a copy of the engine in which all others hold what they hold; never guessed.
"""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from ...topology.drawing.machine_tree import bytes_text
from ..engine.snapshot import Snapshot
from ..model.container import Container, QosClass, Resources
from ..model.request import CpuType
from .counted_rules import (
    RuleKind,
    classified_of,
    classifier_of,
    counted_rules,
)
from .left_out_rules import is_rule, without_own, without_rules, without_that_of
from .trial_engine import TrialEngine

CONTAINERS_MAX: Final = 500
"""On a node with more, to copy the engine would take the processor for too long."""
_WHOLE_CPU_MILLI: Final = 1000
_SHARE_MILLI: Final = 100
_RULES_MAX: Final = 8
"""Of its own, that are left out one by one."""
_RULES_OF_OTHERS_MAX: Final = 3
"""For each of which the engine is copied."""
_MEMORY_STEPS: Final = 64
"""Into which the memory of a container is divided."""


def find_alternatives(snapshot: Snapshot, container: Container) -> tuple[str, ...]:
    """The outcome for a container if it started now, and what would have to change for another one.

    Each is a sentence; empty on nodes with more containers than `CONTAINERS_MAX`, and for those
    for which no pool is chosen. O(containers + pools), some tens of times.
    """
    request = classified_of(snapshot, container).request
    if request.cpu_type is not CpuType.NORMAL or len(snapshot.grants) > CONTAINERS_MAX:
        return ()
    # Whole cpus of its own are given and taken as such; shares of others in whatever amounts.
    is_whole = request.exclusive > 0 and not request.shared_milli
    step = _WHOLE_CPU_MILLI if is_whole else _SHARE_MILLI
    return tuple(_sentences(snapshot, container, step))


def _sentences(snapshot: Snapshot, container: Container, step: int) -> Iterator[str]:
    trials = _Trials(snapshot, container)
    grant = snapshot.grants.get(container.id)
    before = "" if grant is None else snapshot.tree.pools[grant.pool_id].name
    if trials.pool != before:
        yield f"if it started now, it would be {_words(trials.pool)}"
    milli = container.resources.cpu_request_milli
    if container.pod.qos is not QosClass.BEST_EFFORT and milli:
        # One step more, and it fits into a pool that is nearer.
        likely = (milli - trials.room_inside() - 1) // step
        yield from _cpu_sentences(trials, container, -step, (milli - 1) // step, likely)
        if trials.pool:
            most = max(0, _WHOLE_CPU_MILLI * len(snapshot.machine.online) - milli) // step
            likely = (trials.room() - milli) // step
            yield from _cpu_sentences(trials, container, step, most, likely)
    if not trials.pool:
        yield from _memory_sentences(trials, container)
    yield from _rule_sentences(trials, snapshot, container)


def _rule_sentences(trials: "_Trials", snapshot: Snapshot, container: Container) -> Iterator[str]:
    """What single rules are to blame for; all of its own together where none is by itself.

    Nobody would leave out a rule to be refused.
    """
    rules = counted_rules(snapshot, container)
    own = [one for one in rules if one.owner.id == container.id]
    is_one_enough = False
    classifier = classifier_of(snapshot)
    for rule in own[:_RULES_MAX] if len(own) > 1 else ():
        lighter = without_own(container, rule, classifier)
        pool = trials.pool if lighter is None else trials.pool_of(lighter)
        if pool not in ("", trials.pool):
            is_one_enough = True
            yield f"it would be {_words(pool)} without its rule: {rule.text}"
    if not is_one_enough and any(map(is_rule, container.pod.annotations)):
        pool = trials.pool_of(without_rules(container))
        if pool not in ("", trials.pool):
            yield f"without its rules it would be {_words(pool)}"
    of_others = [one for one in rules if one.owner.id != container.id]
    required = [one for one in of_others if one.kind is RuleKind.REQUIRED]
    for rule in required[:_RULES_OF_OTHERS_MAX]:
        lighter_node = without_that_of(snapshot, rule)
        pool = trials.pool if lighter_node is None else _Trials(lighter_node, container).pool
        if pool not in ("", trials.pool):
            yield f"it would be {_words(pool)} without the rule of {rule.owner.path}: {rule.text}"


def _cpu_sentences(
    trials: "_Trials", container: Container, step: int, most: int, likely: int
) -> Iterator[str]:
    milli = container.resources.cpu_request_milli
    found = trials.smallest(lambda count: _with_cpu(container, milli + count * step), most, likely)
    if found is not None:
        count, pool = found
        wish = f"with {milli + count * step}m of CPU instead of {milli}m"
        yield f"{wish} it would be {_words(pool)}"


def _memory_sentences(trials: "_Trials", container: Container) -> Iterator[str]:
    memory = container.resources.memory_limit_bytes
    if not memory:
        return
    part = -(-memory // _MEMORY_STEPS)
    most = (memory - 1) // part
    found = trials.smallest(lambda count: _with_memory(container, memory - count * part), most)
    if found is not None:
        count, pool = found
        less = bytes_text(memory - count * part)
        wish = f"with {less} of memory instead of {bytes_text(memory)}"
        yield f"{wish} it would be {_words(pool)}"


class _Trials:
    """A copy of the engine in which one container is started again and again."""

    def __init__(self, snapshot: Snapshot, container: Container) -> None:
        self._origin = snapshot
        self._asked = container
        self._engine = TrialEngine(snapshot, container)
        self._room = tuple(self._engine.room_of_pools())
        self._pod_size = self._engine.pod_size(container.pod)
        self.pool: Final = self.pool_of(container)
        """The pool it would get as it is; empty where it would be refused."""

    def room(self) -> int:
        """What the pool that it would get has left for it, in milli-cpus."""
        pool = self._engine.tree.named(self.pool)
        return 0 if pool is None else self._room[pool.id]

    def room_inside(self) -> int:
        """What the roomiest pool inside that pool has left; of all pools where it got none."""
        tree = self._engine.tree
        cpus = next((one.cpus for one in tree.pools if one.name == self.pool), None)
        found = (self._room[one.id] for one in tree.pools if cpus is None or one.cpus < cpus)
        return max(found, default=0)

    def pool_of(self, container: Container) -> str:
        """The pool of a container that starts; nobody moves, and it is gone afterwards."""
        pool = self._engine.pool_of(container, self._pod_size_with(container))
        if self._engine.has_changed():
            # It shares cpus with others of its pod, which got more or fewer of them.
            self._engine = TrialEngine(self._origin, self._asked)
        return pool

    def _pod_size_with(self, container: Container) -> Resources | None:
        """The size of its pod where it asks for something else; None for that of now."""
        size = self._pod_size
        other = size and _resized(size, self._asked.resources, container.resources)
        return other if other != size else None

    def smallest(
        self, change: Callable[[int], Container], most: int, likely: int = 0
    ) -> tuple[int, str] | None:
        """The least number of steps that gives another pool, and that pool; None: no number does.

        As if every larger number did too: found by doubling and halving. `likely`: the number that
        may be the last one without effect; it is tried early. O(log most) trials, mostly three.
        """
        low, high = 0, min(1, most)
        while high > low:
            pool = self.pool_of(change(high))
            if pool != self.pool:
                break
            further = 2 * high
            if high <= likely:
                further = likely if high < likely else likely + 1
            low, high = high, min(further, most)
        else:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            found = self.pool_of(change(middle))
            if found == self.pool:
                low = middle
            else:
                high, pool = middle, found
        return high, pool


def _words(pool: str) -> str:
    return f"placed in {pool}" if pool else "refused"


def _with_cpu(container: Container, milli: int) -> Container:
    resources = container.resources
    limit = resources.cpu_limit_milli
    if container.pod.qos is QosClass.GUARANTEED:
        limit = milli
    elif limit is not None:
        limit = max(limit, milli)
    return replace(
        container,
        resources=replace(resources, cpu_request_milli=milli, cpu_limit_milli=limit),
    )


def _resized(whole: Resources, before: Resources, after: Resources) -> Resources:
    """The size of a pod of which one container asks for something else."""
    return replace(
        whole,
        cpu_request_milli=whole.cpu_request_milli
        + (after.cpu_request_milli - before.cpu_request_milli),
        cpu_limit_milli=_shifted(
            whole.cpu_limit_milli, before.cpu_limit_milli, after.cpu_limit_milli
        ),
        memory_request_bytes=whole.memory_request_bytes
        + (after.memory_request_bytes - before.memory_request_bytes),
        memory_limit_bytes=_shifted(
            whole.memory_limit_bytes, before.memory_limit_bytes, after.memory_limit_bytes
        ),
    )


def _shifted(limit: int | None, before: int | None, after: int | None) -> int | None:
    return None if limit is None else limit + (after or 0) - (before or 0)


def _with_memory(container: Container, size: int) -> Container:
    resources = container.resources
    request = min(resources.memory_request_bytes, size)
    return replace(
        container,
        resources=replace(resources, memory_request_bytes=request, memory_limit_bytes=size),
    )

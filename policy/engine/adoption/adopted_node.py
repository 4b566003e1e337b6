"""An adopted node: what is decided about all that runs, and what it is told."""

from collections.abc import Mapping, Sequence

from ...model.container import ContainerId
from ...model.instances import Listed
from ...model.pinning import difference
from ..advice import Advice, Usability
from ..allocator import Allocator
from ..decision import Adopted, Decision, carried_over, with_repetition
from ..stuck_containers import StuckContainers
from .readoption import catch_up


def adopted_node(
    allocator: Allocator,
    listed: Listed,
    advice: Mapping[ContainerId, Advice],
    earlier: Mapping[ContainerId, Decision],
    faults: Mapping[ContainerId, Sequence[Exception]],
    *,
    is_same_tree: bool,
) -> Adopted:
    """The decisions about all that an allocator has adopted, and who differs from its pinning.

    Earlier decisions are carried over, where pools are the same and as far as they still hold; cpus
    that can be used again are given to those that miss some. `faults`: by container, oldest first.
    """
    decisions = allocator.roster.decisions
    for one in listed.running:
        before, hint = earlier.get(one.id), advice.get(one.id)
        decision = carried_over(decisions[one.id], before, hint, is_same_tree=is_same_tree)
        if one.id in listed.repeated:
            decision = with_repetition(decision, one, listed.repeated[one.id])
        allocator.carry_over(decision)
    allocator.unmet.refresh_all()
    usability = Usability.since(advice.values(), allocator.books.supply)
    if usability.freed or usability.is_reserved:
        catch_up(allocator, usability.freed)
    stuck = StuckContainers(allocator)
    if stuck.cpus or any(one.leaving for one in advice.values()):
        stuck.look_again()
    told = allocator.books.pinner.told
    changes = (difference(one, told(one.id)) for one in listed.running)
    return Adopted(
        decisions=tuple(decisions[one.id] for one in listed.running),
        changes=tuple(filter(None, changes)),
        faults={one: errors[-1] for one, errors in faults.items()},
    )

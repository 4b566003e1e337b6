"""Pinnings told to several containers at once are those told to one after the other."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.nri.dispatch.acknowledgements import Acknowledgements
from pinfold.nri.dispatch.pin_state import Stage, Telling
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

laws = settings(max_examples=300, deadline=None)

NAMES = [ContainerId(name) for name in "abcd"]


def pinned(cpu: int) -> Pinning:
    return Pinning(cpus=CpuSet.of(cpu), mems=NodeSet.of(0))


@dataclass(frozen=True)
class Step:
    """Something that happens to one container, or to several."""

    kind: str
    name: ContainerId
    pinning: Pinning
    several: dict[ContainerId, Pinning]
    pause: float


# Some are the same value and another object.
pinnings = st.sampled_from([pinned(0), pinned(1)]) | st.builds(pinned, st.integers(0, 2))
names = st.sampled_from(NAMES)
KINDS = ("want", "told", "told", "create", "start", "forget", "doubt", "observe", "send", "recall")
steps = st.builds(
    Step,
    st.sampled_from([*KINDS, "confirm", "fail"]),
    names,
    pinnings,
    # Mostly several are told the same.
    st.builds(dict[ContainerId, Pinning].fromkeys, st.permutations(NAMES), pinnings)
    | st.dictionaries(names, pinnings, max_size=4),
    st.sampled_from([0.0, 0.2, 0.7]),
)


@dataclass
class Books:
    """Acknowledgements with the updates that are with the runtime."""

    books: Acknowledgements
    flying: dict[ContainerId, Telling] = field(default_factory=dict[ContainerId, Telling])

    def take(self, step: Step, several: dict[ContainerId, Pinning], now: float) -> None:
        books, name = self.books, step.name
        match step.kind:
            case "want":
                books.want(several, now)
            case "told":
                books.told(several, now)
            case "create":
                books.create(name, step.pinning)
            case "start":
                books.start(name, 1, now)
            case "forget":
                books.forget(name)
            case "doubt":
                books.doubt([name], now)
            case "observe":
                books.observe(name, step.pinning, now)
            case "send":
                self.flying |= books.depart(books.due(Stage.TELL, now))
            case "recall":
                books.recall(now)
            case kind:
                if telling := self.flying.pop(name, None):
                    books.arrive(name, telling, "no" if kind == "fail" else "", now)

    def seen(self, now: float) -> object:
        books = self.books
        return (
            [(books.wanted(one), books.acknowledged(one)) for one in NAMES],
            [books.due(stage, now) for stage in Stage],
            [books.next_due(can_tell=can_tell) for can_tell in (True, False)],
            (books.looks(), books.counts()),
        )


@laws
@given(st.booleans(), st.lists(steps, max_size=30))
def test_pinnings_told_together_are_those_told_one_by_one(
    can_read_back: bool, happened: list[Step]
) -> None:
    together = Books(Acknowledgements(0.5, can_read_back=can_read_back))
    alone = Books(Acknowledgements(0.5, can_read_back=can_read_back))
    now = 0.0
    for step in happened:
        now += step.pause
        together.take(step, step.several, now)
        if step.kind in ("want", "told"):
            for one, pinning in step.several.items():
                alone.take(step, {one: pinning}, now)
        else:
            alone.take(step, {}, now)
        assert together.seen(now) == alone.seen(now)

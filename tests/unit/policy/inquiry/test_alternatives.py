"""Alternatives are what the engine really says: each is tried on an engine of its own."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.inquiry import alternatives
from pinfold.policy.inquiry.alternatives import find_alternatives
from pinfold.policy.inquiry.trial_engine import TrialEngine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant, Refusal
from pinfold.topology.made.spec import machine_from_spec

from ..engine.ruled_pods import NODES, apart, container_of, engine_of, placed, prefer, term

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")
GIB = 1 << 30
FRIENDS = """web:
- scope: {key: name, operator: Exists}
  match: {key: name, operator: In, values: [db]}
  weight: 5
"""


def container(
    name: str,
    milli: int,
    memory: int = GIB // 8,
    qos: QosClass = QosClass.GUARANTEED,
    **annotations: str,
) -> Container:
    keys = {f"resource-policy.nri.io/{key}": text for key, text in annotations.items()}
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=memory,
        memory_limit_bytes=memory,
    )
    pod = Pod(id=PodId(name), name=name, qos=qos, annotations=keys)
    return Container(id=ContainerId(name), name=name, pod=pod, resources=resources)


def engine(*containers: Container) -> Engine:
    made = Engine(MACHINE, Config())
    for one in containers:
        made.create(one)
    return made


def test_a_refused_container_hears_with_how_much_less_it_had_a_place() -> None:
    asked = container("vast", 8000)
    one = engine(container("a", 2000))
    assert not isinstance(one.create(asked).result, Grant)
    (sentence,) = find_alternatives(one.snapshot(), asked)
    assert sentence == "with 5000m of CPU instead of 8000m it would be placed in root"
    assert isinstance(one.create(container("vast", 5000)).result, Grant)
    assert not isinstance(one.create(container("vast", 6000)).result, Grant)


def test_a_container_whose_memory_is_refused_hears_of_memory() -> None:
    asked = container("vast", 1000, 7 * GIB)
    one = engine(container("a", 1000, 3 * GIB))
    assert not isinstance(one.create(asked).result, Grant)
    (sentence,) = find_alternatives(one.snapshot(), asked)
    found = re.fullmatch(r"with (\S+) GiB of memory instead of 7 GiB it would be .*", sentence)
    assert found
    assert 4.5 < float(found[1]) <= 5.1


def test_a_placed_container_hears_of_the_smallest_step_in_each_direction() -> None:
    one = engine(container("a", 2000), container("b", 2000))
    asked = one.containers[ContainerId("b")]
    sentences = find_alternatives(one.snapshot(), asked)
    for sentence in sentences:
        found = re.fullmatch(r"with (\d+)m of CPU instead of 2000m it would be (.*)", sentence)
        assert found, sentence
        trial = engine(container("a", 2000))
        decision = trial.create(container("b", int(found[1])))
        outcome = f"placed in {decision.pool}" if isinstance(decision.result, Grant) else "refused"
        assert outcome == found[2]
        assert decision.pool != one.decisions[ContainerId("b")].pool
    assert sentences


def test_a_container_of_shared_cpus_hears_of_less_than_a_whole_one() -> None:
    one = engine(container("a", 3000), container("b", 2300), container("c", 500))
    asked = container("web", 1000, qos=QosClass.BURSTABLE)
    assert isinstance(one.create(asked).result, Grant)
    more = [text for text in find_alternatives(one.snapshot(), asked) if text.endswith("refused")]
    (found,) = (re.match(r"with (\d+)m of CPU instead of 1000m", text) for text in more)
    assert found
    least = int(found[1])
    assert least % 1000
    for milli, fits in ((least - 100, True), (least, False)):
        trial = engine(container("a", 3000), container("b", 2300), container("c", 500))
        decision = trial.create(container("web", milli, qos=QosClass.BURSTABLE))
        assert isinstance(decision.result, Grant) is fits


def test_a_container_beside_its_friend_hears_where_it_went_without_its_rules() -> None:
    one = engine(container("db", 2000), container("web", 500, affinity=FRIENDS))
    asked = one.containers[ContainerId("web")]
    sentences = find_alternatives(one.snapshot(), asked)
    assert "without its rules it would be placed in socket #0" in sentences


def test_a_container_that_room_was_made_for_since_hears_where_it_would_start_now() -> None:
    crowd = [container(f"a{number}", 2000) for number in range(3)]
    one = engine(*crowd, container("late", 1000))
    before = one.decisions[ContainerId("late")].pool
    for other in crowd:
        one.remove(other.id)
    asked = one.containers[ContainerId("late")]
    (first, *_) = find_alternatives(one.snapshot(), asked)
    assert first.startswith("if it started now, it would be placed in ")
    assert not first.endswith(before)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(container("idle", 0, qos=QosClass.BEST_EFFORT), id="nothing is asked for"),
        pytest.param(
            replace(
                container("system", 100), pod=Pod(id=PodId("s"), name="s", namespace="kube-system")
            ),
            id="no pool is chosen",
        ),
    ],
)
def test_some_have_no_alternatives(asked: Container) -> None:
    one = engine(asked)
    assert find_alternatives(one.snapshot(), one.containers[asked.id]) == ()


def test_asking_changes_nothing_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine(container("a", 2000), container("b", 500), container("c", 2500))
    before = one.snapshot()
    asked = one.containers[ContainerId("b")]
    first = find_alternatives(before, asked)
    one.check()
    assert one.snapshot().pinnings == before.pinnings
    assert find_alternatives(before, asked) == first
    monkeypatch.setattr(alternatives, "CONTAINERS_MAX", 2)
    assert find_alternatives(before, asked) == ()


def asked_about(monkeypatch: pytest.MonkeyPatch) -> list[ContainerId]:
    """The containers that are tried from here on, each time."""
    found: list[ContainerId] = []
    pool_of = TrialEngine.pool_of

    def noted(one: TrialEngine, tried: Container, size: Resources | None = None) -> str:
        found.append(tried.id)
        return pool_of(one, tried, size)

    monkeypatch.setattr(TrialEngine, "pool_of", noted)
    return found


@pytest.mark.parametrize(
    ("residents", "milli", "trials_max"),
    [
        pytest.param([], 500, 7, id="a small one on an empty machine"),
        pytest.param([700, 900, 1300], 500, 7, id="a small one among others"),
        pytest.param([700, 900, 1300], 2000, 7, id="one with its own cpus"),
        pytest.param([3000, 3000], 1500, 12, id="one that is nowhere near"),
        pytest.param(
            [3000, 3000], 9000, 12, id="one that is refused, of whose memory is asked, too"
        ),
    ],
)
def test_a_few_trials_are_enough(
    monkeypatch: pytest.MonkeyPatch, residents: list[int], milli: int, trials_max: int
) -> None:
    one = engine(*(container(f"a{place}", size) for place, size in enumerate(residents)))
    asked = container("asked", milli)
    one.create(asked)
    snapshot = one.snapshot()
    tried = asked_about(monkeypatch)
    find_alternatives(snapshot, asked)
    assert 0 < len(tried) <= trials_max


@given(
    sizes=st.lists(st.integers(1, 30).map(lambda number: 100 * number), max_size=5),
    milli=st.integers(1, 90).map(lambda number: 100 * number),
)
def test_a_step_less_than_what_is_told_changes_nothing(sizes: list[int], milli: int) -> None:
    one = engine(*(container(f"a{place}", size, 0) for place, size in enumerate(sizes)))
    asked = container("asked", milli, 0)
    one.create(asked)
    snapshot = one.snapshot()
    step = 1000 if milli % 1000 == 0 else 100

    def pool_of(size: int) -> str:
        trial = Engine.of(snapshot)
        trial.remove(asked.id)
        trial.forget_places()
        return trial.create(container("asked", size, 0)).pool

    for sentence in find_alternatives(snapshot, asked):
        found = re.match(r"with (\d+)m of CPU", sentence)
        if found:
            told = int(found[1])
            before = told - step if told > milli else told + step
            assert pool_of(told) != pool_of(milli), sentence
            assert pool_of(before) == pool_of(milli), sentence


def of_shop(name: str, milli: int, memory: int, whole: Resources | None) -> Container:
    """A container of a pod of several, whose size is told or not."""
    one = container(name, milli, memory)
    pod = Pod(id=PodId("shop"), name="shop", uid="shop", qos=QosClass.GUARANTEED, resources=whole)
    return replace(one, pod=pod)


def shop(milli: list[int], memory: int, *, is_told: bool) -> list[Container]:
    """The containers of a pod, of which each has resources of its own."""
    total, bytes_ = sum(milli), memory * len(milli)
    whole = Resources(
        cpu_request_milli=total,
        cpu_limit_milli=total,
        memory_request_bytes=bytes_,
        memory_limit_bytes=bytes_,
    )
    return [
        of_shop(f"part-{place}", size, memory, whole if is_told else None)
        for place, size in enumerate(milli)
    ]


@given(
    sizes=st.lists(st.integers(1, 30).map(lambda number: 100 * number), max_size=4),
    milli=st.lists(st.integers(1, 30).map(lambda number: 100 * number), min_size=1, max_size=3),
)
@example(sizes=[1000, 700], milli=[1000, 500])
def test_a_pod_that_tells_its_size_hears_what_one_hears_that_does_not(
    sizes: list[int], milli: list[int]
) -> None:
    heard = list[list[tuple[str, ...]]]()
    for is_told in (True, False):
        one = engine(*(container(f"a{place}", size, 0) for place, size in enumerate(sizes)))
        pod = shop(milli, GIB // 8, is_told=is_told)
        for part in pod:
            one.create(part)
        heard.append([find_alternatives(one.snapshot(), part) for part in pod])
    assert heard[0] == heard[1]


@given(
    residents=st.lists(st.integers(1, 30).map(lambda number: 100 * number), max_size=3),
    milli=st.lists(st.integers(1, 30).map(lambda number: 100 * number), min_size=2, max_size=3),
)
def test_in_each_trial_others_of_a_pod_with_one_set_of_cpus_hold_what_they_hold(
    residents: list[int], milli: list[int]
) -> None:
    one = engine(*(container(f"a{place}", size, 0) for place, size in enumerate(residents)))
    for part in shop(milli, GIB // 8, is_told=True):
        annotations = {"pod-pool.pinfold.dev/pod": "true"}
        one.create(replace(part, pod=replace(part.pod, annotations=annotations)))
    snapshot, held = one.snapshot(), list[dict[ContainerId, Grant]]()
    pool_of = TrialEngine.pool_of

    def noted(copy: TrialEngine, tried: Container, size: Resources | None = None) -> str:
        held.append(dict(copy.grants))
        return pool_of(copy, tried, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrialEngine, "pool_of", noted)
        for asked in snapshot.containers.values():
            find_alternatives(snapshot, asked)
            assert all(one == held[0] for one in held)
            held.clear()


def in_block_style(container: Container) -> Container:
    """The container with its rules in lines of their own."""
    key = "affinity.pinfold.dev/pod"
    rules = yaml.safe_dump(json.loads(container.pod.annotations[key]))
    annotations = {**container.pod.annotations, key: rules}
    return replace(container, pod=replace(container.pod, annotations=annotations))


def in_one_line(container: Container) -> Container:
    """The container with its rules as they are made: as JSON."""
    return container


@pytest.mark.parametrize("styled", [in_block_style, in_one_line])
def test_of_several_rules_those_are_named_without_which_it_went_elsewhere(
    styled: Callable[[Container], Container],
) -> None:
    def node(by_b: dict[str, Any]) -> Engine:
        made = engine_of(NODES)
        placed(made, container_of("a", 2, app="a"))
        placed(made, container_of("b", 2, by_b, app="b", fails=True))
        return made

    wish = prefer(7, term("numa", labelSelector={}))
    of_b, of_c = apart(term("socket", "a"), term("socket", "c")), apart(term("socket", "a"))
    asked = styled(container_of("c", 2, {**of_c, **wish}, app="c", fails=True))
    one = node(of_b)
    assert isinstance(one.create(asked).result, Refusal)
    own, of_other = find_alternatives(one.snapshot(), asked)
    assert " without its rule: anti-affinity at socket to app=a (" in own
    assert " without the rule of default/b/main: anti-affinity at socket to app=c (" in of_other
    # What they say comes true.
    lighter = container_of("c", 2, wish, app="c", fails=True)
    for sentence, by_b, trial in (
        (own, of_b, lighter),
        (of_other, apart(term("socket", "a")), asked),
    ):
        decision = node(by_b).create(trial)
        assert isinstance(decision.result, Grant)
        assert sentence.startswith(f"it would be placed in {decision.pool} without ")

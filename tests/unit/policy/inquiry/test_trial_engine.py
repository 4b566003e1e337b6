"""Trials are plans, as long as nobody else has to do with them: nothing is started for them."""

import gc
import weakref

import pytest
from msgspec.structs import replace

from pinfold.policy.engine.decision import Decision
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.inquiry import alternatives
from pinfold.policy.inquiry.alternatives import find_alternatives
from pinfold.policy.inquiry.trial_engine import TrialEngine
from pinfold.policy.model.container import Container, ContainerId, QosClass
from pinfold.policy.model.grant import Refusal
from pinfold.policy.pools.domains import Domains
from pinfold.policy.rules.podaffinity.configured_rules import latest_rules
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet

from ..engine.ruled_pods import NODES, apart, container_of, engine_of, placed, term
from .test_alternatives import container, engine


def told_size(one: Container) -> Container:
    """The container of a pod that tells its size, as the kubelet's do."""
    return replace(one, pod=replace(one.pod, uid=one.id, resources=one.resources))


def of_cpu(one: Container, milli: int) -> Container:
    """The container with another demand for cpu."""
    resources = replace(one.resources, cpu_request_milli=milli, cpu_limit_milli=milli)
    return replace(one, resources=resources)


def starts(monkeypatch: pytest.MonkeyPatch) -> list[ContainerId]:
    """The containers that are started from here on."""
    found: list[ContainerId] = []
    create = Engine.create

    def noted(one: Engine, tried: Container) -> Decision:
        found.append(tried.id)
        return create(one, tried)

    monkeypatch.setattr(Engine, "create", noted)
    return found


def copies(monkeypatch: pytest.MonkeyPatch) -> list[TrialEngine]:
    """The copies of the engine that are made from here on."""
    found: list[TrialEngine] = []

    class Noted(TrialEngine):
        def __init__(self, snapshot: Snapshot, asked: Container) -> None:
            super().__init__(snapshot, asked)
            found.append(self)

    monkeypatch.setattr(alternatives, "TrialEngine", Noted)
    return found


@pytest.mark.parametrize("milli", [500, 2000, 9000])
def test_nobody_is_started_for_a_trial(monkeypatch: pytest.MonkeyPatch, milli: int) -> None:
    one = engine(container("a", 700), container("b", 2000))
    asked = told_size(container("asked", milli))
    one.create(asked)
    snapshot = one.snapshot()
    started = starts(monkeypatch)
    assert find_alternatives(snapshot, asked)
    assert not started


def test_a_container_whose_pod_shares_cpus_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = container("asked", 9000)
    pod = replace(asked.pod, annotations={"pod-pool.pinfold.dev/pod": "true"})
    asked = replace(asked, pod=pod)
    one = engine(container("a", 700))
    assert isinstance(one.create(asked).result, Refusal)
    snapshot, started = one.snapshot(), starts(monkeypatch)
    find_alternatives(snapshot, asked)
    assert set(started) == {asked.id}


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param("group.pinfold.dev/pod", id="the pen of a group"),
        pytest.param("pod-pool.pinfold.dev/pod", id="the pen of a pod"),
    ],
)
def test_a_trial_finds_no_pen_that_an_earlier_one_left(annotation: str) -> None:
    asked = container("asked", 9000, qos=QosClass.BURSTABLE)
    asked = replace(asked, pod=replace(asked.pod, annotations={annotation: "true"}))
    one = engine(container("a", 700))
    assert isinstance(one.create(asked).result, Refusal)
    trial = TrialEngine(one.snapshot(), asked)
    found = [trial.pool_of(of_cpu(asked, milli)) for milli in (300, 3600, 300)]
    assert found[0] not in ("", "root")
    assert found == [found[0], "root", found[0]]


def test_a_copy_is_enough_where_a_start_would_narrow_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = engine_of(NODES)
    for name in "abcdefgh":
        placed(one, container_of(name, 0.3, app="shared"))
    snapshot = one.snapshot()
    asked = container_of("asked", 1, apart(term("core", "shared")), app="asked")
    one.create(asked)
    assert any(one.grants[other] != held for other, held in snapshot.grants.items())
    made = copies(monkeypatch)
    find_alternatives(snapshot, asked)
    assert len(made) == 1


def test_the_rules_of_the_configuration_are_read_once_for_all_questions() -> None:
    one = engine(container("a", 700), container("asked", 500))
    asked = one.containers[ContainerId("asked")]
    snapshot = one.snapshot()
    before = latest_rules(snapshot.config)
    find_alternatives(snapshot, asked)
    # Those of another one would have to be read again, for the next container that comes.
    assert latest_rules(snapshot.config) is before


def test_the_domains_of_a_node_are_worked_out_once_for_all_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = engine_of(NODES)
    placed(one, container_of("a", 1, app="a"))
    asked = container_of("b", 1, apart(term("core", "a")), app="b")
    placed(one, asked)
    made: list[Domains] = []
    work_out = Domains.__init__

    def noted(domains: Domains, machine: Machine, allowed: CpuSet) -> None:
        made.append(domains)
        work_out(domains, machine, allowed)

    monkeypatch.setattr(Domains, "__init__", noted)
    assert find_alternatives(one.snapshot(), asked)
    assert not made


def test_a_question_leaves_nothing_to_a_collector_of_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = engine(container("a", 700), container("asked", 500))
    made = copies(monkeypatch)
    gc.disable()
    try:
        find_alternatives(one.snapshot(), one.containers[ContainerId("asked")])
        last = weakref.ref(made.pop())
        assert last() is None
    finally:
        gc.enable()

"""Scenes: owners of standing rules, worked out for one crowd after another."""

from collections import Counter

from pinfold.policy.books.books import Books
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.placing.judging.scene import Scene
from pinfold.policy.rules.podaffinity.standing_rules import StandingRule
from pinfold.topology.made.spec import machine_from_spec
from tests.bench.hostile_terms import apart, text

MACHINE = machine_from_spec("socket:2 core:16 thread:2 mem:64G")
RULES = dict(text(apart([{"topologyKey": "core", "labelSelector": {"matchLabels": {"a": "b"}}}])))
FIRM = {"on-unsatisfiable.pinfold.dev/pod": "fail"}


def owner(name: str, namespace: str, more: dict[str, str]) -> Container:
    pod = Pod(
        id=PodId(name),
        name=name,
        namespace=namespace,
        annotations={**RULES, **more},
        qos=QosClass.BURSTABLE,
    )
    resources = Resources(cpu_request_milli=1200)
    return Container(id=ContainerId(name), name="c", pod=pod, resources=resources)


OWNERS = (
    owner("firm-1", "default", FIRM),
    owner("weak-1", "default", {}),
    owner("system-1", "kube-system", {}),
    owner("firm-2", "default", FIRM),
    owner("weak-2", "default", {}),
    owner("gone", "default", {}),
)


def books() -> Books:
    engine = Engine(MACHINE, Config())
    for one in OWNERS:
        engine.create(one)
    engine.stop(ContainerId("gone"))
    return engine._allocator.books  # pyright: ignore[reportPrivateUsage]


def crowd(found: Books, *names: str) -> StandingRule:
    known = {one.id: one for one in OWNERS}
    [rule] = found.standing.of(ContainerId("weak-1")).required
    return StandingRule(rule, {ContainerId(one): known[ContainerId(one)] for one in names})


def read(scene: Scene, one: StandingRule) -> list[tuple[bool, bool, list[str], list[int], int]]:
    return [
        (
            part.can_break,
            part.are_systems,
            list(part.presence),
            [cpus for _, cpus in part.presence.values()],
            part.cpus,
        )
        for part in scene.owners(one)
    ]


def test_the_owners_of_one_rule_do_not_depend_on_those_of_another_before() -> None:
    found = books()
    crowds = [
        crowd(found, "weak-1", "firm-1"),
        crowd(found, "firm-2", "weak-2", "firm-1"),
        crowd(found, "gone", "weak-2", "firm-2", "system-1", "weak-1"),
        crowd(found, "gone"),
        crowd(found, "firm-1", "system-1", "firm-2"),
    ]
    scene = Scene(found)

    assert [read(scene, one) for one in crowds] == [read(Scene(found), one) for one in crowds]


def test_owners_come_in_their_order_those_apart_that_insist_and_those_that_hold_nothing_not() -> (
    None
):
    found = books()
    scene = Scene(found)
    scene.owners(crowd(found, "weak-1", "firm-1"))

    one = crowd(found, "gone", "firm-2", "weak-2", "system-1", "firm-1")
    parts = [(can_break, are_systems, ids) for can_break, are_systems, ids, *_ in read(scene, one)]

    assert parts == [
        (False, False, ["firm-2", "firm-1"]),
        (True, False, ["weak-2"]),
        (True, True, ["system-1"]),
    ]


def test_owners_are_counted_by_their_cpus_whether_they_insist_or_not() -> None:
    found = books()
    one = crowd(found, "gone", "firm-2", "weak-2", "system-1", "firm-1")
    of_parts = Counter(cpus for *_, some, _ in read(Scene(found), one) for cpus in some)

    assert Scene(found).sizes(one) == of_parts
    assert sum(of_parts.values()) == 4


def test_the_path_of_an_owner_is_worded_once_for_all_rules() -> None:
    found = books()
    scene = Scene(found)
    [before] = scene.owners(crowd(found, "weak-1"))
    [after] = scene.owners(crowd(found, "weak-1", "weak-2"))

    first, both = ([path for path, _ in some.by_path()] for some in (before, after))
    assert first == ["default/weak-1/c"]
    assert both == ["default/weak-1/c", "default/weak-2/c"]
    assert first[0] is both[0]


def test_owners_are_found_by_their_paths_in_their_own_order() -> None:
    found = books()
    [owners] = Scene(found).owners(crowd(found, "weak-1", "weak-2"))

    assert [*owners.by_path(["default/firm-1/c"])] == []
    assert [path for path, _ in owners.by_path(["default/weak-2/c"])] == ["default/weak-2/c"]
    both = ["default/weak-2/c", "default/firm-1/c", "default/weak-1/c"]
    assert [path for path, _ in owners.by_path(both)] == ["default/weak-1/c", "default/weak-2/c"]

"""Metrics of Pinfold's own names: that they count what happens, and that whoever names them may."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from prometheus_client.core import Metric

from pinfold.cmd.daemon.daemon import ReloadRecord
from pinfold.cmd.metrics.daemon_families import DaemonLook, daemon_families
from pinfold.cmd.metrics.event_counts import EventCounts
from pinfold.nri.dispatch.report import (
    Answered,
    Crashed,
    Decided,
    Drifted,
    Happening,
    Outcome,
    Reconfigured,
)
from pinfold.policy.engine.gauges.gauge import Gauge
from pinfold.policy.engine.replacing.asked_move import AskedMove
from pinfold.policy.manifests.manifest import parse_manifests
from pinfold.policy.model.move_purpose import MovePurpose
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet
from tests.gauge_samples import GaugeSample, samples
from tests.unit.cmd.daemon.paper_node import PaperNode, burstable, config, guaranteed
from tests.unit.policy.engine.pods_with_wishes import placed, wishing
from tests.unit.policy.engine.ruled_pods import (
    apart,
    container_of,
    engine_of,
    prefer,
    term,
)

CONFIGS = Path(__file__).parents[4] / "configs"
MANUAL = Path(__file__).parents[4] / "docs" / "operating.md"
ALERTS = CONFIGS / "prometheus" / "pinfold-alerts.yaml"
DASHBOARD = CONFIGS / "grafana" / "pinfold.json"
FOREIGN = {"up"}
_KINDS = 500
SHOP = """
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    resource-policy.nri.io/affinity: |
      web:
      - scope: {key: pod/name, operator: Equals, values: [shop]}
        match: {key: name, operator: Equals, values: [db]}
        weight: 5
spec: {containers: [{name: db}, {name: web}]}
"""
MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:8G")


def look(node: PaperNode, counts: EventCounts, **more: object) -> DaemonLook:
    return DaemonLook(
        snapshot=node.daemon.engine.snapshot(),
        counts=counts,
        is_connected=bool(more.get("is_connected", True)),
        reconnections=0,
        reload=None,
    )


def values(families: Iterator[Metric | Gauge]) -> dict[str, dict[tuple[str, ...], float]]:
    """By sample name the values by labels, in the order of the labels in the family."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in families:
        for one in samples(family) if isinstance(family, Gauge) else family.samples:
            name = family.name if isinstance(one, GaugeSample) else one.name
            found.setdefault(name, {})[tuple(one.labels.values())] = one.value
    return found


@pytest.fixture(name="counts")
def fixture_counts() -> EventCounts:
    return EventCounts()


@pytest.fixture(name="node")
def fixture_node(counts: EventCounts) -> Iterator[PaperNode]:
    node = PaperNode(MACHINE, config(), reports=(counts,))
    node.start()
    yield node
    node.stop()


def test_satisfied_weight_is_that_of_containers_that_are_where_they_wish(
    node: PaperNode, counts: EventCounts
) -> None:
    def weight() -> dict[tuple[str, ...], float]:
        return values(daemon_families(look(node, counts)))["pinfold_satisfied_weight"]

    assert weight() == {(): 0.0}
    (shop,) = parse_manifests(SHOP, "shop.yaml")
    node.run(shop)
    assert weight() == {(): 5.0}


def test_who_is_moved_counts_among_those_that_were_told_other_cpus(
    node: PaperNode, counts: EventCounts
) -> None:
    node.run(burstable("side", 100))
    events, here = node.daemon.front.events, node.grant("side").pool_id
    leaves = (one.id for one in events.policy.tree.pools if not one.children)
    (there,) = (one for one in leaves if one != here)
    asked = AskedMove(there, MovePurpose.WISHES)
    node.daemon.front.owner.ask("move", lambda: events.moves.move(node.id_of("side"), asked))
    node.settle()
    assert node.grant("side").pool_id == there
    told = values(daemon_families(look(node, counts)))["pinfold_cpuset_updates_total"]
    assert told["move",] == 1


def test_placements_alignment_and_updates_are_counted(node: PaperNode, counts: EventCounts) -> None:
    node.run(burstable("side", 100), guaranteed("db", 2000), guaranteed("web", 4000))
    node.refusal(guaranteed("vast", 9000))
    node.settle()
    found = values(daemon_families(look(node, counts)))
    placed = found["pinfold_placements_total"]
    assert sum(one for (result, *_), one in placed.items() if result == "granted") == 3
    assert placed["refused", "no pool", "topology-aware"] == 1
    aligned = found["pinfold_alignment_total"]
    assert (aligned["socket", "aligned"], aligned["socket", "split"]) == (2, 1)
    again = values(daemon_families(look(node, counts)))["pinfold_alignment_total"]
    assert again == aligned, "looking changes nothing"
    assert found["pinfold_cpuset_updates_total"]["create",] >= 1
    calls = found["pinfold_events_total"]
    assert calls["CreateContainer", "done"] == 3
    assert calls["CreateContainer", "refused"] == 1
    timed = found["pinfold_event_duration_seconds_bucket"]
    assert timed["CreateContainer", "done", "+Inf"] == 3
    assert found["pinfold_event_duration_seconds_sum"]["CreateContainer", "done"] > 0


def test_alignment_of_many_placements_is_counted_although_nobody_asked(
    node: PaperNode, counts: EventCounts
) -> None:
    node.run(guaranteed("db", 2000))
    (container,) = node.daemon.engine.containers.values()
    decision = node.daemon.engine.snapshot().decisions[container.id]
    for _ in range(2000):
        counts(Decided(event="create", container=container, decision=decision))
    aligned = values(daemon_families(look(node, counts)))["pinfold_alignment_total"]
    assert aligned["socket", "aligned"] == 2001


def test_cpus_are_aligned_where_one_domain_has_them_all(node: PaperNode) -> None:
    node.run(guaranteed("db", 2000))
    (container,) = node.daemon.engine.containers.values()
    decision = node.daemon.engine.snapshot().decisions[container.id]
    counts = EventCounts()

    def place(*lists: str) -> None:
        for cpus in lists:
            told = structs.replace(decision, pinning=Pinning(cpus=CpuSet.parse(cpus)))
            counts(Decided(event="create", container=container, decision=told))

    # L3 groups that lie across each other; no domain has cpu 8.
    machine = replace(MACHINE, l3_groups=(CpuSet.parse("0,2,4-5"), CpuSet.parse("1,3,6-7")))
    place("0", "0,2", "2,5", "1,3,6-7", "0-1", "0-7", "8", "2,8")
    found = counts.alignment(machine)
    assert (found["l3", "aligned"], found["l3", "split"]) == (4, 4)
    assert (found["numa", "aligned"], found["numa", "split"]) == (3, 5)
    place("0-1")
    found = counts.alignment(replace(MACHINE, l3_groups=()))
    assert (found["l3", "aligned"], found["l3", "split"]) == (4, 5), "no domain has them"
    assert (found["numa", "aligned"], found["numa", "split"]) == (4, 5)


def test_domains_tell_what_is_taken_of_them(node: PaperNode, counts: EventCounts) -> None:
    node.run(guaranteed("db", 2000))
    found = values(daemon_families(look(node, counts)))
    (number,) = {"0", "1"} & {label for label in "01" if node.mems("db") == label}
    assert found["pinfold_domain_cpus"]["socket", "0"] == 4
    assert found["pinfold_domain_cpus_exclusive"]["numa", number] == 2
    assert found["pinfold_domain_memory_bytes"]["numa", number] == 8 * 2**30
    assert found["pinfold_domain_memory_available_bytes"]["numa", number] == 7 * 2**30
    assert 0 < found["pinfold_fragmentation_ratio"]["socket",] < 1


def test_broken_rules_are_counted_by_kind_and_level(counts: EventCounts) -> None:
    engine = engine_of("socket:2 numa:1 core:4 thread:1 mem:4G")
    for name in ("a", "b", "c"):
        engine.create(container_of(name, 0.5, apart(term("socket", "x")), app="x"))
    found = values(
        daemon_families(
            DaemonLook(
                snapshot=engine.snapshot(),
                counts=counts,
                is_connected=False,
                reconnections=2,
                reload=ReloadRecord(is_good=False, good_at=7.0),
                state_fault="/var/lib/pinfold: No space left on device — the state is not saved",
                history_fault="/var/lib/pinfold: No space left on device — decisions are lost",
            )
        )
    )
    violations = found["pinfold_affinity_violations"]
    # The last one's own rule, and that of whom it is beside: both are told of either.
    assert violations["anti-affinity", "required", "socket"] == 2
    assert sum(violations.values()) == violations["anti-affinity", "required", "socket"]
    assert found["pinfold_nri_connected"][()] == 0
    assert found["pinfold_nri_reconnects_total"][()] == 2
    assert found["pinfold_config_last_reload_successful"][()] == 0
    assert found["pinfold_config_last_reload_timestamp_seconds"][()] == 7
    assert found["pinfold_state_last_save_successful"][()] == 0
    assert found["pinfold_history_last_write_successful"][()] == 0


def test_wishes_that_are_not_met_are_counted_beside_rules_and_name_nobody(
    counts: EventCounts,
) -> None:
    rule = {"maxSkew": 1, "topologyKey": "numa", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = {**rule, "labelSelector": dict[str, object]()}
    engine = placed(
        (wishing("db"), "NUMA node #0"),
        (wishing("web", wishes={"db": 3}), "NUMA node #2"),
        (container_of("near", 0.5, prefer(10, term("numa", "db"))), "NUMA node #1"),
        (container_of("a", 0.1, {"topologySpread": [spread]}), "NUMA node #3"),
        (container_of("b", 0.1), "NUMA node #3"),
        (container_of("c", 0.1), "NUMA node #3"),
    )
    made = DaemonLook(
        snapshot=engine.snapshot(), counts=counts, is_connected=True, reconnections=0, reload=None
    )
    found = values(daemon_families(made))
    violations = found["pinfold_affinity_violations"]
    assert {labels for labels, count in violations.items() if count} == {
        ("affinity", "preferred", ""),
        ("affinity", "preferred", "numa"),
        ("spread", "preferred", "numa"),
    }
    assert found["pinfold_wished_weight"][()] == 13
    assert 0 < found["pinfold_satisfied_weight"][()] < 13
    for family in daemon_families(made):
        for sample in samples(family) if isinstance(family, Gauge) else family.samples:
            assert not {"pod", "container", "namespace"} & sample.labels.keys()
            assert not {"db", "web", "near"} & {*sample.labels.values()}


@pytest.mark.parametrize(
    ("happening", "name", "labels"),
    [
        pytest.param(
            Answered("CreateContainer", 0.2, Outcome.LATE),
            "pinfold_unpinned_starts_total",
            ("late",),
            id="an answer that was late",
        ),
        pytest.param(
            Answered("CreateContainer", 0.1, Outcome.CRASHED),
            "pinfold_unpinned_starts_total",
            ("fault",),
            id="a fault of ours",
        ),
        pytest.param(Crashed("x", ValueError()), "pinfold_faults_total", (), id="a fault"),
        pytest.param(
            Drifted(container=container_of("a"), intended=Pinning(), kernel=Pinning(), likely="x"),
            "pinfold_cpuset_drift_total",
            ("repaired",),
            id="drift",
        ),
        pytest.param(
            Reconfigured(1),
            "pinfold_cpuset_updates_total",
            ("reconfigure",),
            id="a reload that moved one container",
        ),
    ],
)
def test_what_happens_is_counted_once(
    node: PaperNode, counts: EventCounts, happening: Happening, name: str, labels: tuple[str, ...]
) -> None:
    before = values(daemon_families(look(node, counts)))[name][labels]
    counts(happening)
    assert values(daemon_families(look(node, counts)))[name][labels] == before + 1


def test_answers_are_counted_however_many_come_before_somebody_asks(
    node: PaperNode, counts: EventCounts
) -> None:
    for _ in range(1000):
        counts(Answered("StopContainer", 0.0015, Outcome.DONE))
    counts(Answered("CreateContainer", 0.15, Outcome.LATE))
    found = values(daemon_families(look(node, counts)))
    assert found["pinfold_events_total"]["StopContainer", "done"] == 1000
    assert found["pinfold_event_duration_seconds_bucket"]["StopContainer", "done", "0.002"] == 1000
    assert found["pinfold_event_duration_seconds_bucket"]["StopContainer", "done", "0.001"] == 0
    assert found["pinfold_unpinned_starts_total"]["late",] == 1


def test_durations_are_read_while_calls_of_further_kinds_are_counted(counts: EventCounts) -> None:
    is_over = threading.Event()

    def count() -> None:
        for number in range(_KINDS):
            for outcome in Outcome:
                counts(Answered(f"Call{number}", 0.0015, outcome))
        is_over.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=count)
    other.start()
    try:
        while not is_over.is_set():
            found = counts.durations
            assert len(found) <= _KINDS * len(Outcome)
    finally:
        other.join()
        sys.setswitchinterval(before)
    assert len(counts.durations) == _KINDS * len(Outcome)


def told_metrics() -> set[str]:
    return set(re.findall(r"\| `((?:nri|pinfold|process)_\w+)` \|", MANUAL.read_text()))


def names_in(expression: str) -> set[str]:
    """Metrics that an expression asks for, without those whose name is a pattern."""
    plain = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"", " ", expression)
    plain = re.sub(r"\b(?:by|on|without|ignoring) *\([^)]*\)", " ", plain)
    words = re.findall(r"[a-z_][a-z0-9_]*(?! *\()\b", plain)
    return {one for one in words if "_" in one or one in FOREIGN} - {"histogram_quantile"}


def alerts() -> list[tuple[str, str]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]


def panels() -> list[tuple[str, str]]:
    found = json.loads(DASHBOARD.read_text())["panels"]
    return [(panel["title"], one["expr"]) for panel in found for one in panel["targets"]]


@pytest.mark.parametrize(("name", "expression"), [*alerts(), *panels()])
def test_every_metric_that_an_alert_or_a_panel_names_exists(name: str, expression: str) -> None:
    asked = names_in(expression) - FOREIGN
    assert asked <= told_metrics(), name
    assert asked or "containerd_nri_" in expression or names_in(expression) <= FOREIGN


def test_every_panel_and_alert_has_a_name_of_its_own_and_alerts_say_what_to_do() -> None:
    for names in ([name for name, _ in alerts()], [name for name, _ in panels()]):
        assert len(names) == len(set(names)) > 10
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"].keys() == {"summary", "description"}
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}

"""What `pinfold lint --machine` says of required rules that hold elsewhere, and not there."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main

FOUR_NODES = "socket:2 numa:2 core:4 mem:4G"
"""Of four cpus each, the first with the reserved one; two of them have one L3 cache."""
FIELD = "requiredDuringSchedulingIgnoredDuringExecution"
DB = {"labelSelector": {"matchLabels": {"app": "db"}}}


def pod(rules: Mapping[str, Any], *cpus: int, **annotations: str) -> str:
    """A pod whose containers c0, c1 … have these numbers of cpus of their own."""
    told = {f"{key.replace('_', '-')}.pinfold.dev/pod": one for key, one in annotations.items()}
    if rules:
        told["affinity.pinfold.dev/pod"] = json.dumps(rules)
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"cpu": count, "memory": "1Mi"}}}
        for number, count in enumerate(cpus)
    ]
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "annotations": told},
            "spec": {"containers": containers},
        }
    )


def lint(text: str, *arguments: str) -> list[str]:
    result = CliRunner().invoke(main, ["lint", "-", *arguments, "-o", "json"], input=text)
    found = json.loads(result.stdout)["complaints"]
    return [f"{one['level']}: {one['message']}" for one in found]


@pytest.mark.parametrize(
    ("machine", "is_told"),
    [
        pytest.param(FOUR_NODES, True, id="two NUMA nodes have one L3 cache"),
        pytest.param("numa:2 l3:1 core:4", True, id="each has one"),
        pytest.param("numa:2 l3:2 core:4", False, id="each has two"),
        pytest.param("", False, id="no machine is known"),
    ],
)
def test_rules_that_contradict_each_other_on_a_machine_alone_are_told(
    machine: str, *, is_told: bool
) -> None:
    near, apart = ({FIELD: [{**DB, "topologyKey": level}]} for level in ("numa", "l3"))
    text = pod({"podAffinity": near, "podAntiAffinity": apart}, 1)
    found = lint(text, *(("--machine", machine) if machine else ()))
    contradictions = [one for one in found if "contradicts" in one]
    assert len(contradictions) == is_told
    for one in contradictions:
        assert one.startswith("error: affinity.pinfold.dev/pod of default/web/c0: contradicts")
        assert "together with it on this machine — leave one of them out" in one


@pytest.mark.parametrize(
    ("machine", "is_told"),
    [
        pytest.param(FOUR_NODES, False, id="no clusters, and an L3 cache spans two NUMA nodes"),
        pytest.param("numa:2 l3:1 cluster:2 core:2", True, id="clusters inside NUMA nodes"),
        pytest.param("", False, id="no machine is known"),
    ],
)
def test_a_cluster_can_be_wider_than_a_numa_node(machine: str, *, is_told: bool) -> None:
    near, apart = ({FIELD: [{**DB, "topologyKey": level}]} for level in ("cluster", "numa"))
    text = pod({"podAffinity": near, "podAntiAffinity": apart}, 1)
    found = lint(text, *(("--machine", machine) if machine else ()))
    assert sum("contradicts" in one for one in found) == is_told


FAILS = '"on-unsatisfiable.pinfold.dev/pod": "fail"'
ON_THEM = ("--machine", FOUR_NODES)
BESIDE_C0 = {"labelSelector": {"matchLabels": {"container.name": "c0"}}, "scope": "pod"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            pod({}, 5, pool_name="NUMA node #1"), "pool-name 'NUMA node #1'", id="a small pool"
        ),
        pytest.param(
            pod({}, 1, pool_name="NUMA node #1", pool_selector="socket=1"),
            "a pool with socket=1 (pool-selector.pinfold.dev/pod)",
            id="a pool without the labels asked for",
        ),
        pytest.param(
            pod({"podAffinity": {FIELD: [{**BESIDE_C0, "topologyKey": "numa"}]}}, 3, 3),
            "affinity at numa to container.name=c0 of its own pod",
            id="a sibling that fills the NUMA node",
        ),
    ],
)
def test_a_rule_that_gives_way_though_the_pod_is_alone_is_told(text: str, told: str) -> None:
    found = [one for one in lint(text, *ON_THEM) if "even alone" in one]
    (one,) = found
    assert f": even alone it breaks a required rule: {told}" in one
    assert one.startswith("advice: default/web/c")
    assert one.endswith("under 'on-unsatisfiable: fail' it would be refused")
    insisting = lint(text.replace('"annotations": {', f'"annotations": {{{FAILS}, ', 1), *ON_THEM)
    assert any("refused: required rules leave no room" in one for one in insisting)
    assert not any("even alone" in one for one in insisting)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(pod({}, 4, pool_name="NUMA node #1"), id="it holds"),
        pytest.param(
            pod({"podAffinity": {FIELD: [{**DB, "topologyKey": "numa"}]}}, 1),
            id="those that it is about come with others",
        ),
        pytest.param(pod({}, 1, pool_name="NUMA node #9"), id="no such pool, which is told"),
        pytest.param(pod({}, 1, pool_selector="socket=9"), id="no such label, which is told"),
    ],
)
def test_rules_that_may_hold_or_are_told_otherwise_are_not_told_as_broken(text: str) -> None:
    assert not any("even alone" in one for one in lint(text, *ON_THEM))


def test_what_is_told_otherwise_of_one_container_is_told_of_another_one_as_broken() -> None:
    names = {"c0": "NUMA node #9", "c1": "NUMA node #1"}
    told = {f"pool-name.pinfold.dev/container.{key}": name for key, name in names.items()}
    text = pod({}, 1, 5).replace('"annotations": {}', f'"annotations": {json.dumps(told)}')
    (found,) = [one for one in lint(text, *ON_THEM) if "even alone" in one]
    assert found.startswith("advice: default/web/c1: even alone it breaks a required rule")


def spread(
    level: str, when: str = "DoNotSchedule", labels: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    rule = {"maxSkew": 1, "topologyKey": level, "whenUnsatisfiable": when}
    return {"topologySpread": [{**rule, "labelSelector": {"matchLabels": labels or {}}}]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            pod(spread("numa"), 1, pool_selector="socket=1"),
            "2 NUMA nodes",
            id="two NUMA nodes of another socket",
        ),
        pytest.param(
            pod(spread("socket"), 1, pool_name="NUMA node #1"),
            "1 socket",
            id="the socket without the pool of this name",
        ),
        pytest.param(pod(spread("numa"), 1, pool_selector="kind=numa"), "", id="none is left out"),
        pytest.param(pod(spread("numa"), 1), "", id="it may be in any pool"),
        pytest.param(
            pod(spread("numa", labels={"app": "db"}), 1, pool_selector="socket=1"),
            "",
            id="it counts others alone",
        ),
        pytest.param(
            pod(spread("numa", "ScheduleAnyway"), 1, pool_selector="socket=1"), "", id="a wish"
        ),
    ],
)
def test_a_spread_over_domains_where_the_pod_may_not_be_is_told(text: str, told: str) -> None:
    found = [one for one in lint(text, *ON_THEM) if "not let it be: while those are empty" in one]
    assert len(found) == bool(told)
    assert all(f": it counts {told} as well in which its rules" in one for one in found)
    assert all(one.startswith("advice: affinity.pinfold.dev/pod of default/web") for one in found)


def test_a_spread_over_domains_that_no_pod_like_it_may_ever_have_is_not_told() -> None:
    text = pod(spread("numa"), 2, pool_name="NUMA node #0")
    machine = "--machine", "socket:1 numa:2 core:4 isolated:4-7"
    assert not [one for one in lint(text, *machine) if "not let it be" in one]


@pytest.mark.parametrize(
    ("machine", "wish", "is_told"),
    [
        pytest.param(FOUR_NODES, {}, True, id="anywhere"),
        pytest.param(FOUR_NODES, {"pool_name": "socket #1"}, True, id="in a socket of two"),
        pytest.param("socket:2 core:4", {"pool_name": "socket #1"}, False, id="in one of one"),
        pytest.param(FOUR_NODES, {"pool_name": "NUMA node #1"}, False, id="in one NUMA node"),
        pytest.param(FOUR_NODES, {"pool_selector": "socket=1"}, True, id="in pools of a socket"),
        pytest.param(FOUR_NODES, {"pool_selector": "numa=1"}, False, id="in those of a node"),
        pytest.param("socket:1 core:4", {}, False, id="where there is no other"),
    ],
)
def test_a_pod_that_may_fill_several_domains_of_a_machine_is_told(
    machine: str, wish: Mapping[str, str], *, is_told: bool
) -> None:
    others = {"topologyKey": "numa", "mismatchLabelKeys": ["pod.uid"]}
    text = pod({"podAntiAffinity": {FIELD: [others | {"labelSelector": {}}]}}, 1, 1, **wish)
    found = [one for one in lint(text, "--machine", machine) if "may be in several" in one]
    assert len(found) == is_told


@pytest.mark.parametrize(
    ("count", "is_told"),
    [
        pytest.param(1, True, id="isolated CPUs may serve who asks for one"),
        pytest.param(2, False, id="and nobody who asks for more and does not say so"),
    ],
)
def test_a_pod_fills_no_domain_of_isolated_cpus_that_it_never_gets(
    count: int, *, is_told: bool
) -> None:
    others = {"topologyKey": "numa", "mismatchLabelKeys": ["pod.uid"]}
    text = pod({"podAntiAffinity": {FIELD: [others | {"labelSelector": {}}]}}, count, count)
    found = lint(text, "--machine", "numa:2 core:8 isolated:8-15")
    assert any("may be in several" in one for one in found) is is_told

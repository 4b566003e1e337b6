import re
from pathlib import Path

import pytest
import yaml

from pinfold.policy.annotations.annotation_keys import OWN_DOMAIN, RULE_KEYS
from pinfold.policy.annotations.annotation_values import (
    HintSource,
    IrqAffinity,
    IrqMode,
    PathFilter,
)
from pinfold.policy.annotations.annotations import Scope
from pinfold.policy.annotations.preferences import NO_PREFERENCES, Preferences, parse_preferences
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.cpu_preference import (
    BurstLevel,
    CpuPriority,
    MovePreference,
    SmtPreference,
)
from pinfold.topology.model.machine import MemoryKind

GIVEN = Path(__file__).parents[5] / "shared/scenarios/given.yaml"
SECOND = 10**9


def container(annotations: dict[str, str], name: str = "c0") -> Container:
    pod = Pod(id=PodId("p"), name="web", annotations=annotations)
    return Container(id=ContainerId("c"), name=name, pod=pod)


def parse(key: str, value: str) -> Preferences:
    domain = "pinfold.dev" if key in ("smt", "move", "group") else "resource-policy.nri.io"
    return parse_preferences(container({f"{key}.{domain}/container.c0": value}))


def test_no_annotation_is_no_preference() -> None:
    assert parse_preferences(container({"a.b/c": "d"})) is NO_PREFERENCES


def test_rules_between_containers_alone_are_no_preferences() -> None:
    rules = {f"{key}.{OWN_DOMAIN}/pod": "fail" for key in RULE_KEYS}
    assert parse_preferences(container(rules)) is NO_PREFERENCES
    assert parse_preferences(container({**rules, f"move.{OWN_DOMAIN}/pod": "never"})).move


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("prefer-cpu-priority", "high", "cpu_priority", CpuPriority.HIGH),
        ("prefer-cpu-priority", "none", "cpu_priority", CpuPriority.NONE),
        ("prefer-cpu-priority", "default", "cpu_priority", None),
        ("prefer-reserved-cpus", "true", "prefer_reserved", True),
        ("prefer-reserved-cpus", "F", "prefer_reserved", False),
        ("hide-hyperthreads", "1", "hide_hyperthreads", True),
        ("cold-start", "duration: 10s", "cold_start_ns", 10 * SECOND),
        ("cold-start", "duration: 1m30s", "cold_start_ns", 90 * SECOND),
        ("cold-start", "{duration: 1h}", "cold_start_ns", 3600 * SECOND),
        ("cold-start", "duration: 0", "cold_start_ns", 0),
        ("cpu.preserve", "true", "preserve_cpu", True),
        ("cpu.preserve", "false", "preserve_cpu", False),
        ("memory.preserve", "true", "preserve_memory", True),
        ("pick-resources-by-hints", "TRUE", "pick_by_hints", True),
        ("unlimited-burstable", "l3cache", "burst_level", BurstLevel.L3_CACHE),
        ("unlimited-burstable", "thread", "burst_level", BurstLevel.THREAD),
        ("scheduling-class", " realtime ", "scheduling_class", "realtime"),
        ("topologyhints", "true", "hint_sources", set(HintSource)),
        ("topologyhints", "0", "hint_sources", set[HintSource]()),
        ("topologyhints", "none", "hint_sources", set[HintSource]()),
        (
            "topologyhints",
            "mounts, devices",
            "hint_sources",
            {HintSource.MOUNTS, HintSource.DEVICES},
        ),
        (
            "allow.topologyhints",
            "type: prefix\npaths: [/sys/a]",
            "hint_allow",
            PathFilter(("/sys/a",)),
        ),
        ("deny.topologyhints", "{type: glob, paths: ['*']}", "hint_deny", PathFilter(("*",), True)),
        ("strict.topologyhints", "true", "strict_hints", True),
        ("rdtclass", "gold", "rdt_class", "gold"),
        ("blockioclass", "slow", "blockio_class", "slow"),
        ("smt", "spread", "smt", SmtPreference.SPREAD),
        ("smt", "hide", "smt", SmtPreference.HIDE),
        ("move", "never", "move", MovePreference.NEVER),
        ("move", " Allowed", "move", MovePreference.ALLOWED),
    ],
)
def test_a_valid_value_is_typed(key: str, value: str, field: str, expected: object) -> None:
    preferences = parse(key, value)
    assert getattr(preferences, field) == expected
    assert not preferences.problems


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("dram", {MemoryKind.DRAM}),
        ("HBM, pmem,cxl", set(MemoryKind) - {MemoryKind.DRAM}),
        ("mixed", set(MemoryKind)),
    ],
)
def test_kinds_of_memory_are_typed_with_their_annotation(
    value: str, expected: set[MemoryKind]
) -> None:
    preferences = parse("memory-type", value)
    assert preferences.memory_types is not None
    assert preferences.memory_types.value == expected
    assert preferences.memory_types.key.startswith("memory-type.")
    assert not preferences.problems


@pytest.mark.parametrize(
    ("key", "value", "what", "fix", "is_fatal"),
    [
        ("prefer-isolated-cpus", "yes", "'yes' is not a boolean", "write 'true'", False),
        ("prefer-reserved-cpus", "", "'' is not a boolean", "write 'true'", False),
        ("hide-hyperthreads", "tRUE", "not a boolean", "write 'true'", False),
        ("prefer-cpu-priority", "hihg", "unknown cpu priority 'hihg'", "'high'", False),
        ("memory-type", "dram,hbn", "unknown memory type 'hbn'", "did you mean 'hbm'?", False),
        ("memory-type", "", "unknown memory type ''", "one of dram", False),
        ("cpu.preserve", "True", "'True' does not preserve", "write 'true'", False),
        ("unlimited-burstable", "socket", "unknown level 'socket'", "'package'", False),
        ("unlimited-burstable", "l3", "unknown level 'l3'", "", False),
        ("scheduling-class", " ", "no name", "write the name of a class", False),
        ("group", "", "no name", "write the name of a group", False),
        ("topologyhints", "mount", "unknown kind of hint 'mount'", "'mounts'", False),
        ("deny.topologyhints", "type: regex", "unknown type 'regex'", "'type: glob'", False),
        ("deny.topologyhints", "{type: glob, paths: ['[']}", "malformed pattern", "", False),
        ("smt", "packed", "unknown use of threads 'packed'", "did you mean 'pack'?", False),
        ("move", "nevr", "unknown wish about moves 'nevr'", "did you mean 'never'?", False),
        ("cold-start", "10s", "not a mapping", "write 'duration: ...'", False),
        ("cold-start", "duration: 10", "'10' is not a duration", "write 'duration: 10s'", False),
        ("cold-start", "duration: -1s", "'-1s' is not a duration", "write", False),
        ("cold-start", "duration: 61m", "outside the range", "at most 1h", False),
        ("cold-start", "durations: 1s", "unknown field 'durations'", "'duration'", False),
        ("cold-start", "{}", "no duration", "write 'duration: 10s'", False),
        ("cold-start", "[", "not valid YAML", "check", False),
        ("irq-affinity", "claims: [a]", "invalid IRQ affinity", "did you mean 'claim'?", True),
        ("irq-affinity", "claim: ['[']", "malformed pattern", "", True),
    ],
)
def test_an_invalid_value_is_reported_and_the_default_holds(
    key: str, value: str, what: str, fix: str, is_fatal: bool
) -> None:
    preferences = parse(key, value)
    (problem,) = preferences.problems
    assert problem.where.startswith(key)
    assert problem.where.endswith(" of default/web/c0")
    assert what in problem.what
    assert fix in problem.fix
    assert problem.is_fatal is is_fatal
    others = {
        field: getattr(preferences, field) for field in ("memory_types", "irq_affinity", "smt")
    }
    assert set(others.values()) == {None}
    assert preferences.cold_start_ns == 0


def test_one_unknown_kind_of_hint_does_not_lose_the_others() -> None:
    preferences = parse("topologyhints", "devices,wishes")
    assert preferences.hint_sources == {HintSource.DEVICES}
    assert len(preferences.problems) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('claim: [ "*ttyS0*" ]', IrqAffinity(claim=("*ttyS0*",))),
        ("claim: [4]\nmask: ['*']", IrqAffinity(claim=("4",), mask=("*",))),
        ("mask: [a]\nmode: claim-first", IrqAffinity(mask=("a",), mode=IrqMode.CLAIM_FIRST)),
    ],
)
def test_an_irq_affinity_is_read_from_yaml(value: str, expected: IrqAffinity) -> None:
    chosen = parse("irq-affinity", value).irq_affinity
    assert chosen is not None
    assert (chosen.value, chosen.scope) == (expected, Scope.CONTAINER)


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("claim: xyzzy, foobar", r"invalid IRQ affinity .*: .*"),
        (
            'claim: [ "*ttyS0*" ]\nmask: [ "*rtc0*" ]\nmode: xyzzy',
            r"invalid IRQ affinity mode .*xyzzy.* \(valid modes: .*\)",
        ),
    ],
)
def test_the_texts_of_a_refused_irq_affinity(value: str, pattern: str) -> None:
    (problem,) = parse("irq-affinity", value).problems
    assert re.search(pattern, str(problem))
    assert problem.is_fatal


BOOLEANS = [
    ("container.c0", "true", "c0", True),
    ("container.c0", "false", "c0", False),
    ("container.c0", "blah", "c0", None),
    ("container.c0", "true", "c1", None),
    ("pod", "true", "c1", True),
]


@pytest.mark.parametrize(("scope", "value", "name", "expected"), BOOLEANS)
@pytest.mark.parametrize("key", ["prefer-isolated-cpus", "prefer-shared-cpus"])
def test_a_preference_for_kinds_of_cpus(
    key: str, scope: str, value: str, name: str, expected: bool | None
) -> None:
    assert chosen_bool({f"{key}.resource-policy.nri.io/{scope}": value}, key, name) is expected


@pytest.mark.parametrize("scenario", ["unit-isolated-preference", "unit-shared-preference"])
def test_given_preferences_are_read_as_expected(scenario: str) -> None:
    if not GIVEN.exists():
        pytest.skip(f"no {GIVEN}")
    scenarios = yaml.safe_load(GIVEN.read_text())["scenarios"]
    table = next(one for one in scenarios if one["id"] == scenario)
    for case in table["cases"]:
        found = chosen_bool(case["annotations"], table["preference"], case["container"])
        expected = case["expect"]
        assert found is (expected if isinstance(expected, bool) else None)
        problems = parse_preferences(container(case["annotations"], case["container"])).problems
        assert bool(problems) is ("error logged" in str(expected))


def chosen_bool(annotations: dict[str, str], key: str, name: str) -> bool | None:
    preferences = parse_preferences(container(annotations, name))
    fields = {
        "prefer-isolated-cpus": preferences.prefer_isolated,
        "prefer-shared-cpus": preferences.prefer_shared,
    }
    chosen = fields[key]
    return chosen.value if chosen else None


PREFER = "prefer-isolated-cpus.resource-policy.nri.io"
REQUIRE = "require-isolated-cpus.resource-policy.nri.io"


@pytest.mark.parametrize(
    ("annotations", "value", "is_required"),
    [
        ({}, None, False),
        # The unscoped preference counts too.
        ({PREFER: "true"}, True, False),
        ({PREFER: "false"}, False, False),
        ({REQUIRE: "true"}, True, True),
        ({REQUIRE: "true", PREFER: "false"}, True, True),
        ({REQUIRE + "/pod": "true", PREFER + "/pod": "false"}, True, True),
        ({REQUIRE + "/pod": "true", PREFER + "/container.c0": "false"}, False, False),
        ({REQUIRE + "/container.c0": "false", PREFER + "/pod": "true"}, False, False),
        ({REQUIRE + "/pod": "maybe", PREFER + "/pod": "true"}, True, False),
    ],
)
def test_requiring_isolated_cpus_against_preferring_them(
    annotations: dict[str, str], value: bool | None, is_required: bool
) -> None:
    chosen, required = parse_preferences(container(annotations)).isolated
    assert (chosen.value if chosen else None, required) == (value, is_required)


def test_unknown_keys_are_among_the_problems() -> None:
    annotations = {"memory-typ.resource-policy.nri.io/pod": "dram", "smt.pinfold.dev/pod": "x"}
    first, second = parse_preferences(container(annotations)).problems
    assert "did you mean 'memory-type.resource-policy.nri.io/pod'?" in first.fix
    assert second.where == "smt.pinfold.dev/pod of default/web/c0"


def test_the_deprecated_map_style_is_understood() -> None:
    annotations = {
        "cri-resource-manager.intel.com/cold-start": "c0:\n  duration: 60s\nc1:\n  duration: 5s\n",
        "resource-policy.nri.io/memory-type": "c0: dram,pmem\n",
    }
    preferences = parse_preferences(container(annotations))
    assert preferences.cold_start_ns == 60 * SECOND
    assert preferences.memory_types is not None
    assert preferences.memory_types.value == {MemoryKind.DRAM, MemoryKind.PMEM}
    assert parse_preferences(container(annotations, "c1")).memory_types is None


@pytest.mark.parametrize(
    ("paths", "path", "expected"),
    [
        (PathFilter(("/sys/a", "/dev")), "/dev/sda", True),
        (PathFilter(("/sys/a",)), "/sys/b", False),
        (PathFilter(()), "/sys/b", False),
        (PathFilter(("/dev/sd?",), is_glob=True), "/dev/sda", True),
        (PathFilter(("/dev/*",), is_glob=True), "/dev/a/b", False),
    ],
)
def test_a_path_filter_matches_paths_and_patterns(
    paths: PathFilter, path: str, expected: bool
) -> None:
    assert paths.matches(path) is expected


def test_pods_of_one_workload_share_texts_but_not_problems() -> None:
    annotations = {"hide-hyperthreads.resource-policy.nri.io/pod": "perhaps"}
    for name in ("web-1", "web-2"):
        pod = Pod(id=PodId(name), name=name, annotations=annotations)
        one = Container(id=ContainerId(f"c-{name}"), name="c0", pod=pod)
        (problem,) = parse_preferences(one).problems
        assert problem.where == f"hide-hyperthreads.resource-policy.nri.io/pod of default/{name}/c0"

import re
from pathlib import Path

import pytest
import yaml
from click import Context
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.policy.annotations.annotation_keys import (
    CRI_DOMAIN,
    KEYS,
    RACK_LABEL,
    RESOURCE_SET_LABEL,
    RESOURCES_KEY,
    KnownKey,
)
from pinfold.policy.annotations.preferences import parse_preferences
from pinfold.policy.configuration.affinity_fields import (
    ITEMS_MAX,
    REQUIREMENTS_MAX,
    RULES_MAX,
    WORD_MAX,
)
from pinfold.policy.configuration.config import Config, OnUnsatisfiable
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.configuration.pool_label_names import MACHINE_LABELS
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.manifests.manifest import parse_manifests
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.level_name import RULE_LEVELS
from pinfold.policy.model.selector_operator import PoolOperator
from pinfold.policy.pools.pool_labels import pool_labels
from pinfold.policy.pools.supply import read_supply
from pinfold.policy.pools.tree_building import build_tree
from pinfold.policy.rules.affinity import affinity_rules
from pinfold.policy.rules.affinity_reader import MAX_RULES, RULE_FIELDS
from pinfold.policy.rules.container_facts import FIELDS
from pinfold.policy.rules.expression import MAX_VALUES
from pinfold.policy.rules.operators import OPERATORS
from pinfold.policy.rules.podaffinity.affinity_text import (
    AFFINITY_FIELDS,
    MAX_FAULTS,
    PREFERRED_FIELD,
    REQUIRED_FIELDS,
)
from pinfold.policy.rules.podaffinity.rule_set import PlacementRules
from pinfold.policy.rules.podaffinity.rule_text import placement_rules
from pinfold.policy.rules.podaffinity.term import PSEUDO_LABELS
from pinfold.policy.rules.podaffinity.term_text import SPREAD_FIELDS
from pinfold.policy.rules.written_fields import TERM_FIELDS
from pinfold.policy.scenarios.check.pod_check import PodCheck
from pinfold.policy.scenarios.scenario_file import Topology
from pinfold.policy.scenarios.simulation import pods_scenario, run_scenario
from pinfold.policy.text.glob import MAX_LENGTH
from pinfold.policy.text.yaml_text import ANNOTATION_LIMITS
from pinfold.topology.made.spec import machine_from_spec

TEXT = (Path(__file__).parents[2] / "docs/annotations.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
NODE = config_from_values(
    {
        "control": {"rdt": {"enable": True}, "blockio": {"enable": True}},
        "loadClasses": [{"name": "bandwidth", "level": "l2"}],
        "schedulingClasses": [{"name": "background", "policy": "batch"}],
        "cpuClasses": [{"name": "turbo", "minFreq": "base", "maxFreq": "turbo"}],
        "sharedPoolCPUClass": "turbo",
    }
)
"""A node that has the classes that examples ask for."""


def containers(example: str) -> dict[str, Container]:
    manifest = yaml.safe_load(example)
    pod = Pod(
        id=PodId("p"),
        name=manifest["metadata"]["name"],
        labels=manifest["metadata"].get("labels", {}),
        annotations=manifest["metadata"]["annotations"],
    )
    names: list[str] = [one["name"] for one in manifest["spec"]["containers"]]
    return {name: Container(id=ContainerId(name), name=name, pod=pod) for name in names}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 14


def test_every_annotation_is_in_an_example() -> None:
    written = {key for example in EXAMPLES for key in keys_of(example)}
    assert [key.name for key in KEYS if not any(is_key(one, key) for one in written)] == []
    assert RESOURCES_KEY in written


def keys_of(example: str) -> list[str]:
    return [*yaml.safe_load(example)["metadata"]["annotations"]]


def is_key(written: str, key: KnownKey) -> bool:
    """Whether an annotation is written as a row of the table has it."""
    prefix, _, name = written.partition("/")
    if key.is_plain:
        return prefix in key.domains and name == key.name
    return prefix in [f"{key.name}.{domain}" for domain in key.domains]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_without_fault_and_has_an_effect(example: str) -> None:
    machine = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:4G")
    found = lint_manifests(example, PodCheck(None, machine))
    old = [one for one in found if one.problem.what.startswith(f"the domain {CRI_DOMAIN} ")]
    assert [*found] == old
    assert bool(old) is (CRI_DOMAIN in example)
    every = containers(example).values()
    assert any(
        parse_preferences(one) != parse_preferences_of_none(one)
        or affinity_rules(one)[0]
        or placement_rules(one, Config())[0]
        for one in every
    )


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_not_refused(example: str) -> None:
    machine = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:4G")
    pods = parse_manifests(example, "docs")
    result = run_scenario(pods_scenario(pods), Topology(machine=machine), NODE)
    assert result.refusals == ()
    assert result.remarks == ()


def parse_preferences_of_none(container: Container) -> object:
    pod = Pod(id=container.pod.id, name=container.pod.name)
    return parse_preferences(Container(id=container.id, name=container.name, pod=pod))


def rules(name: str) -> PlacementRules:
    """The placement rules of the container of this name in the only example that has it."""
    (found,) = [one[name] for example in EXAMPLES if name in (one := containers(example))]
    bound, problems = placement_rules(found, Config())
    assert problems == ()
    return bound


def term_texts(found: PlacementRules) -> list[str]:
    terms = [rule.term for rule in found.required] + [rule.term for rule in found.preferred]
    return [term.text.partition(" (")[0] for term in terms]


def test_the_example_of_shards() -> None:
    shard = rules("shard")
    assert term_texts(shard) == [
        "anti-affinity at l3 to app=shard, the same revision",
        "preferred affinity at socket to app in",
    ]
    assert str(shard.required[0].term.selector) == "app=shard, revision=7"
    assert shard.preferred[0].weight == 50
    assert shard.preferred[0].term.namespaces.is_everything
    assert shard.on_unsatisfiable is OnUnsatisfiable.FAIL


def test_the_example_of_siblings() -> None:
    audit = rules("audit")
    (apart,) = audit.required
    assert apart.is_anti
    assert apart.term.is_pod_scope
    assert term_texts(audit) == [
        "anti-affinity at core to container.name=engine of its own pod",
        "preferred affinity at numa to container.name=engine of its own pod",
    ]
    assert not rules("engine")


def test_the_siblings_of_the_example_are_in_one_numa_node_and_share_no_core() -> None:
    (example,) = [one for one in EXAMPLES if "audit" in containers(one)]
    machine = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:4G")
    scenario = pods_scenario(parse_manifests(example, "docs"))
    result = run_scenario(scenario, Topology(machine=machine), NODE)
    audit, engine = (result.containers[name] for name in ("audit", "engine"))
    assert audit.pool == engine.pool == "NUMA node #1"
    assert (engine.cpus, audit.cpus) == ("8-9", "10-15")
    assert not (*audit.notes, *audit.unmet)


def test_the_example_of_spread() -> None:
    numa, socket = rules("worker").spread
    assert (numa.max_skew, numa.min_domains, numa.is_required) == (1, 2, True)
    assert str(numa.selector) == "app=worker"
    assert (socket.level.value, socket.is_required) == ("socket", False)


def test_the_example_of_pools() -> None:
    helper = rules("helper")
    found = [one.text.partition(" (")[0] for one in helper.pool_required]
    assert found == [
        "a pool with memory.dram-gib > 2, core-kind=performance or memory.hbm-gib exists",
        "a pool with socket=1",
    ]
    assert [one.weight for one in helper.pool_preferred] == [20]
    assert helper.pool_name is None


def test_every_pool_label_is_documented() -> None:
    machine = machine_from_spec("socket:1 numa:2 core:2 mem:1G")
    tree = build_tree(machine, read_supply(machine, Config(), CpuPicker(machine)))
    given = {key for one in pool_labels(tree, machine, Config()) for key in one}
    for label in given | {*MACHINE_LABELS}:
        assert f"`{label}`" in TEXT


def test_the_limits_of_placement_rules_are_documented() -> None:
    limits = TEXT.partition("### How much may be written")[2].partition("\n## ")[0]
    for number in (
        f"first {RULES_MAX} count",
        f"{REQUIREMENTS_MAX} requirements",
        f"{RULES_MAX} terms",
        f"{ITEMS_MAX} items",
        f"{WORD_MAX} characters",
        f"{MAX_FAULTS} faults",
    ):
        assert number in limits


def test_peter_the_sheep_and_the_wolf() -> None:
    peter = next(found for example in EXAMPLES if (found := containers(example)).get("peter"))
    assert [rule.weight for rule in affinity_rules(peter["peter"])[0]] == [5, -5]
    assert not affinity_rules(peter["sheep"])[0]


def test_the_shorthand_example_means_what_the_text_says() -> None:
    every = next(found for example in EXAMPLES if (found := containers(example)).get("container4"))
    rules = {
        name: [(str(rule.match), rule.weight) for rule in affinity_rules(one)[0]]
        for name, one in every.items()
    }
    assert rules == {
        "container1": [("name In container3", 1)],
        "container2": [("name In container3, container4", -1)],
        "container3": [("name In container1", 1), ("name In container2, container4", -1)],
        "container4": [("name In container2, container3", -1)],
    }


@pytest.mark.parametrize(
    "word",
    sorted({key.name for key in KEYS} | set(OPERATORS) | set(RULE_FIELDS))
    + sorted({*AFFINITY_FIELDS, *REQUIRED_FIELDS, PREFERRED_FIELD, *TERM_FIELDS, *SPREAD_FIELDS})
    + [one.value for one in PoolOperator]
    + [level.value for level in RULE_LEVELS]
    + [*PSEUDO_LABELS, RACK_LABEL, RESOURCE_SET_LABEL]
    + [field for field in FIELDS if "labels" not in field and field != "tags"],
)
def test_every_word_of_the_language_is_documented(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_every_key_in_the_tables_is_known() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", TEXT, re.MULTILINE)
    known = {key.name for key in KEYS} | set(OPERATORS) | set(RULE_FIELDS)
    known |= {*TERM_FIELDS, *SPREAD_FIELDS, *MACHINE_LABELS}
    rows = [row for row in rows if not re.match(r"`(memory|cpu)\.", row)]
    written = {word for row in rows for word in re.findall(r"`([^`]+)`", row)} - {"pinfold.dev"}
    assert written <= known


def test_the_limits_are_documented() -> None:
    limits = TEXT.partition("### Limits")[2].partition("\n## ")[0]
    found = ANNOTATION_LIMITS
    for number in (
        f"{found.characters} characters",
        f"{found.nodes} YAML values",
        f"{found.depth} levels",
        f"{MAX_RULES} rules",
        f"{MAX_VALUES} values in",
        f"{MAX_LENGTH} characters",
    ):
        assert number in limits


def test_the_keys_that_refuse_a_container_are_documented() -> None:
    introduction = TEXT.partition("\n## ")[0]
    for key in ("irq-affinity", "cpu-class", "onBadAnnotation: fail"):
        assert f"`{key}`" in introduction


def test_no_command_is_named_that_does_not_exist() -> None:
    assert set(re.findall(r"`pinfold ([a-z]+)", TEXT)) <= set(main.list_commands(Context(main)))


LINTED = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    a.b/c: d
    resource-policy.nri.io/affinity: |
      peter:
      - wolf
      - match: {key: name, operator: Equal, values: [sheep]}
spec:
  containers: [{name: peter}, {name: wolf}]
"""


def test_the_transcript_of_lint_is_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("web.yaml").write_text(LINTED)
    printed = CliRunner().invoke(main, ["lint", "web.yaml"]).output
    assert f"$ pinfold lint web.yaml\n{printed}```" in TEXT

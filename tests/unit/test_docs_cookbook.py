"""The recipes of the cookbook: each is linted and simulated, and what its text promises is so."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pinfold.cmd.pinfold import main
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine
from pinfold.topology.sets.cpuset import CpuSet

TEXT = (Path(__file__).parents[2] / "docs/cookbook.md").read_text()
FILES = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
COMMANDS = re.findall(r"^\$ pinfold (simulate|lint) (.+)$", TEXT, re.MULTILINE)
RECIPES = re.findall(r"^## (?!How to use)(.+)$", TEXT, re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Placed:
    """A container of a recipe, as the simulation's JSON has it."""

    row: Mapping[str, Any]

    @property
    def cpus(self) -> CpuSet:
        return CpuSet.parse(self.row["cpus"])

    @property
    def exclusive(self) -> CpuSet:
        return CpuSet.parse(self.row["exclusive"])

    @property
    def mems(self) -> str:
        return str(self.row["mems"])

    @property
    def refused(self) -> str:
        return self.row["refused"] or ""


@dataclass(frozen=True, slots=True)
class Simulation:
    machine: Machine
    containers: Mapping[str, Placed]
    problems: tuple[str, ...]

    def whole_cores(self, name: str) -> int:
        """The number of cores that a container has alone; it must not have a part of another."""
        own = self.containers[name].exclusive
        cores = [core for core in self.machine.cores if core & own]
        assert all(core <= own for core in cores)
        return len(cores)

    def cpus_of_node(self, node: str) -> CpuSet:
        return self.machine.node_by_id[int(node)].cpus


Change = Callable[[str], str]


def replacing(*pairs: tuple[str, str]) -> Change:
    def replaced(text: str) -> str:
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    return replaced


def without_lines(word: str) -> Change:
    return lambda text: "".join(line for line in text.splitlines(True) if word not in line)


def simulated(
    manifest: str,
    folder: Path,
    *,
    change: Change = lambda text: text,
    on: Change = lambda spec: spec,
) -> Simulation:
    """The recipe's own command, after a change of its manifest, or on another machine."""
    for name, text in FILES.items():
        (folder / name).write_text(change(text) if name == manifest else text)
    (words,) = [
        shlex.split(rest)
        for command, rest in COMMANDS
        if command == "simulate" and rest.startswith(f"{manifest} ")
    ]
    spec = words.index("--machine") + 1
    words[spec] = on(words[spec])
    arguments = [str(folder / word) if word in FILES else word for word in words]
    result = CliRunner().invoke(main, ["simulate", *arguments, "-o", "json", "--allow-refusals"])
    assert result.exit_code == 0, result.output
    (scenario,) = json.loads(result.stdout)["scenarios"]
    placed = {name: Placed(row) for name, row in scenario["containers"].items()}
    return Simulation(machine_from_spec(words[spec]), placed, tuple(scenario["problems"]))


def test_every_recipe_is_linted_and_simulated() -> None:
    manifests = [rest.split()[0] for command, rest in COMMANDS if command == "simulate"]
    assert len(manifests) == len(RECIPES) == 5
    assert [rest.split()[0] for command, rest in COMMANDS if command == "lint"] == manifests


@pytest.mark.parametrize(
    "manifest", [rest.split()[0] for command, rest in COMMANDS if command == "simulate"]
)
def test_a_recipe_is_without_problem(manifest: str, tmp_path: Path) -> None:
    found = simulated(manifest, tmp_path)
    assert found.problems == ()
    assert not any(one.refused for one in found.containers.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_says_when_to_use_it_what_comes_of_it_and_how_to_see_it(recipe: str) -> None:
    text = TEXT.partition(f"\n## {recipe}\n")[2].partition("\n## ")[0]
    assert all(part in text for part in ("**When**:", "**What you get**:", "**Is it so?**"))


def test_databases_have_cores_of_their_own_and_poolers_beside_them(tmp_path: Path) -> None:
    found = simulated("postgres.yaml", tmp_path)
    nodes: list[str] = []
    for number in range(2):
        postgres = found.containers[f"default/orders-db-{number}/postgres"]
        pooler = found.containers[f"default/orders-db-{number}/pgbouncer"]
        assert found.whole_cores(f"default/orders-db-{number}/postgres") == 2
        assert postgres.mems == pooler.mems
        assert postgres.cpus | pooler.cpus <= found.cpus_of_node(postgres.mems)
        assert not postgres.cpus & pooler.cpus
        nodes.append(postgres.mems)
    assert len(set(nodes)) == 2


def test_a_second_database_starts_where_there_is_no_other_numa_node(tmp_path: Path) -> None:
    found = simulated(
        "postgres.yaml",
        tmp_path,
        on=replacing(("socket:2 numa:2 core:4", "socket:1 core:8"), ("mem:16G", "mem:32G")),
    )
    assert not any(one.refused for one in found.containers.values())


def test_shards_have_an_l3_cache_each_and_one_too_many_is_refused(tmp_path: Path) -> None:
    more = replacing(("replicas: 4", "replicas: 5"))
    found = simulated("redis.yaml", tmp_path, change=more)
    caches = [
        [group for group in found.machine.l3_groups if group & one.cpus]
        for one in found.containers.values()
        if not one.refused
    ]
    assert all(len(each) == 1 for each in caches)
    assert {each[0] for each in caches} == set(found.machine.l3_groups)
    assert {found.whole_cores(f"default/cache-{number}/redis") for number in range(4)} == {1}
    refused = found.containers["default/cache-4/redis"].refused
    assert all(f"default/cache-{number}/redis" in refused for number in range(4))


def test_without_its_last_line_a_shard_too_many_is_placed(tmp_path: Path) -> None:
    found = simulated(
        "redis.yaml",
        tmp_path,
        change=lambda text: without_lines("on-unsatisfiable")(text).replace(": 4\n", ": 5\n"),
    )
    last = found.containers["default/cache-4/redis"]
    assert last.cpus
    assert "anti-affinity at l3 to app=cache" in last.row["unmet"][0]


def test_the_forwarder_has_isolated_cpus_and_memory_at_its_card(tmp_path: Path) -> None:
    found = simulated("dpdk.yaml", tmp_path)
    (card,) = found.machine.devices
    forwarder, control = found.containers["forwarder"], found.containers["control"]
    assert found.whole_cores("forwarder") == 2
    assert forwarder.exclusive <= found.machine.isolated & card.cpus
    assert forwarder.mems == control.mems == str(card.numa_node)
    assert control.cpus <= card.cpus - found.machine.isolated


@pytest.mark.parametrize(
    ("there", "here"),
    [
        pytest.param("isolated:4-15,20-31", "isolated:4-15", id="no isolated CPUs there"),
        pytest.param("hugepages:1G=8", "hugepages:1G=3", id="too few huge pages there"),
    ],
)
def test_a_forwarder_far_from_its_card_is_refused(there: str, here: str, tmp_path: Path) -> None:
    found = simulated("dpdk.yaml", tmp_path, on=replacing((there, here)))
    assert found.containers["forwarder"].refused
    assert not found.containers["control"].refused


def test_without_its_key_the_forwarder_takes_ordinary_cpus_at_the_card(tmp_path: Path) -> None:
    found = simulated(
        "dpdk.yaml",
        tmp_path,
        change=without_lines("require-isolated"),
        on=replacing(("isolated:4-15,20-31", "isolated:4-15")),
    )
    forwarder = found.containers["forwarder"]
    assert len(forwarder.exclusive) == 4
    assert forwarder.exclusive <= found.machine.devices[0].cpus - found.machine.isolated


def test_jobs_are_in_the_other_socket_as_long_as_it_has_room(tmp_path: Path) -> None:
    found = simulated("jvm.yaml", tmp_path)
    jvm = found.containers["jvm"]
    assert found.whole_cores("jvm") == 3
    jobs = [one for name, one in found.containers.items() if name != "jvm"]
    assert len(jobs) == 3
    assert not any(one.cpus & found.cpus_of_node(jvm.mems) for one in jobs)
    assert not any(one.mems == jvm.mems for one in jobs)


def test_jobs_without_room_come_to_the_socket_but_never_to_the_cpus(tmp_path: Path) -> None:
    crowd = replacing(("parallelism: 3", "parallelism: 45"))
    found = simulated("jvm.yaml", tmp_path, change=crowd)
    jvm = found.containers["jvm"]
    jobs = [one for name, one in found.containers.items() if name != "jvm"]
    assert not any(one.refused for one in jobs)
    assert any(one.cpus & found.cpus_of_node(jvm.mems) for one in jobs)
    assert not any(one.cpus & jvm.cpus for one in jobs)


def test_each_model_is_at_its_gpu_with_the_gateway_beside_it(tmp_path: Path) -> None:
    found = simulated("gpu.yaml", tmp_path)
    gpus = {one.name: one for one in found.machine.devices}
    for number in range(2):
        model = found.containers[f"default/answers-{number}/model"]
        gateway = found.containers[f"default/answers-{number}/gateway"]
        gpu = gpus[f"gpu{number}"]
        assert found.whole_cores(f"default/answers-{number}/model") == 2
        assert model.cpus | gateway.cpus <= gpu.cpus
        assert model.mems == gateway.mems == str(gpu.numa_node)


def test_where_the_gpu_is_a_wish_a_model_far_from_it_starts(tmp_path: Path) -> None:
    both_there = replacing(("gpu:1,0", "gpu:1,1"), ("hugepages:1G=16", "hugepages:1G=8"))
    strict = simulated("gpu.yaml", tmp_path, on=both_there)
    assert strict.containers["default/answers-1/model"].refused
    wished = simulated(
        "gpu.yaml", tmp_path, change=without_lines("strict.topologyhints"), on=both_there
    )
    assert not any(one.refused for one in wished.containers.values())

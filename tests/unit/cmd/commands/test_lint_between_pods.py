"""`pinfold lint` on rules of pods for one another, in one file or several."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pinfold.cmd.commands.check.file_check import FileCheck
from pinfold.cmd.pinfold import main
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.counted_calls import count_calls

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ONE_NODE = "socket:1 numa:1 core:8 mem:8G"
TWO_NODES = "socket:1 numa:2 core:8 mem:8G"


def selecting(app: str, level: str = "numa", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": level, **more}


def near(*terms: dict[str, Any]) -> dict[str, str]:
    return {"affinity.pinfold.dev/pod": json.dumps({"podAffinity": {REQUIRED: terms}})}


def apart(*terms: dict[str, Any]) -> dict[str, str]:
    return {"affinity.pinfold.dev/pod": json.dumps({"podAntiAffinity": {REQUIRED: terms}})}


def prefer(weight: int, one: dict[str, Any]) -> dict[str, str]:
    kind = "podAffinity" if weight > 0 else "podAntiAffinity"
    rule = {"weight": abs(weight), "podAffinityTerm": one}
    return {"affinity.pinfold.dev/pod": json.dumps({kind: {PREFERRED: [rule]}})}


def weight(
    amount: int, app: str, *, key: str = "pod/labels/app", symmetric: bool | None = None
) -> dict[str, str]:
    rule: dict[str, Any] = {
        "scope": {"operator": "AlwaysTrue"},
        "match": {"key": key, "operator": "Equals", "values": [app]},
        "weight": amount,
    }
    if symmetric is not None:
        rule["symmetric"] = symmetric
    return {"pinfold.dev/affinity": json.dumps({"main": [rule]})}


def pod(name: str, rules: dict[str, str], kind: str = "Pod", namespace: str = "shop") -> str:
    whole: dict[str, Any] = {
        "metadata": {"labels": {"app": name}, "annotations": rules},
        "spec": {"containers": [{"name": "main"}]},
    }
    if kind != "Pod":
        whole = {"spec": {"replicas": 3, "template": whole}, "metadata": {}}
    whole["metadata"] |= {"name": name, "namespace": namespace}
    return json.dumps({"apiVersion": "v1", "kind": kind, **whole}, indent=1)


def lint(folder: Path, pods: Sequence[str], *options: str) -> Result:
    """Lints a file for each pod."""
    files: list[str] = []
    for number, text in enumerate(pods):
        file = folder / f"pod{number}.yaml"
        file.write_text(text)
        files.append(str(file))
    return CliRunner().invoke(main, ["lint", *files, *options])


def advice(folder: Path, pods: Sequence[str], *options: str) -> list[str]:
    """What lint says of pods, without the folder; each is advice."""
    result = lint(folder, pods, "-o", "json", *options)
    complaints = json.loads(result.stdout)["complaints"]
    assert result.exit_code == 0
    assert {one["level"] for one in complaints} <= {"advice"}
    return [one["message"] for one in complaints]


SYMMETRIC = "symmetricAffinity: true\n"
CONTRADICTION = "contradicts anti-affinity at {} to app=web (affinity.pinfold.dev/pod:1) of shop/db"


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        pytest.param(
            [pod("web", near(selecting("db"))), pod("db", apart(selecting("web")))],
            CONTRADICTION.format("numa"),
            id="one must be with whom must be without it",
        ),
        pytest.param(
            [pod("db", apart(selecting("web", "socket"))), pod("web", near(selecting("db", "l3")))],
            CONTRADICTION.format("socket"),
            id="the same where the wider level is that of keeping apart",
        ),
        pytest.param(
            [
                pod("web", near(selecting("db")), kind="Deployment"),
                pod("db", apart(selecting("web")), kind="StatefulSet"),
            ],
            CONTRADICTION.format("numa"),
            id="and of templates, which have labels before they have names",
        ),
        pytest.param(
            [pod("web", weight(10, "db")), pod("db", weight(-10, "web"))],
            "weight 10 here and -10 of shop/db/main are opposed: who is placed later decides",
            id="weights that are opposed, each counting for its owner",
        ),
        pytest.param(
            [
                pod("web", weight(10, "db", symmetric=True)),
                pod("db", weight(-10, "web", symmetric=True)),
            ],
            "weight 10 here and -10 of shop/db/main cancel each other",
            id="weights that cancel",
        ),
        pytest.param(
            [pod("web", prefer(7, selecting("db"))), pod("db", prefer(-7, selecting("web")))],
            "weight 7 here and -7 of shop/db/main cancel each other: rules like these count in",
            id="preferred rules that cancel, which count in both directions",
        ),
        pytest.param(
            [pod("web", weight(10, "db")), pod("db", {})],
            "the rule counts when shop/web/main is placed, and not when shop/db/main is",
            id="a weight in one direction, of which the other's author said nothing",
        ),
    ],
)
def test_what_never_holds_or_counts_for_nothing_is_told_once(
    tmp_path: Path, pods: list[str], told: str
) -> None:
    (found,) = advice(tmp_path, pods)
    assert told in found
    (in_one_file,) = advice(tmp_path, ["\n---\n".join(pods)])
    assert in_one_file == found


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(
            [pod("web", near(selecting("db", "l3"))), pod("db", apart(selecting("web", "core")))],
            id="with it in an L3 group, on other cores",
        ),
        pytest.param(
            [
                pod("web", near(selecting("db"))),
                pod("db", apart(selecting("web"))),
                pod("db2", {}).replace('"app": "db2"', '"app": "db"'),
            ],
            id="another one that the rule is about lets it come",
        ),
        pytest.param(
            [
                pod("web", near(selecting("db"))),
                pod("db", apart(selecting("web"))),
                *(pod(f"other{number}", {}) for number in range(300)),
                pod("db2", {}).replace('"app": "db2"', '"app": "db"'),
            ],
            id="another one that lets it come, behind as many as are compared",
        ),
        pytest.param(
            [
                pod("web", near(selecting("web"))),
                pod("web2", apart(selecting("web"))).replace('"app": "web2"', '"app": "web"'),
            ],
            id="a rule for a group that it is of itself",
        ),
        pytest.param(
            [
                pod("web", near(selecting("db"))),
                pod("db", apart(selecting("web")), namespace="others"),
            ],
            id="pods of another namespace, which are not meant",
        ),
        pytest.param(
            [
                pod("web", near(selecting("db"))),
                pod("db", apart(selecting("web", matchLabelKeys=["pod-template-hash"]))),
            ],
            id="a rule about labels that controllers give",
        ),
        pytest.param(
            [pod("web", weight(10, "db")), pod("db", weight(10, "web"))],
            id="weights of both for each other",
        ),
        pytest.param(
            [pod("web", weight(10, "db", symmetric=True)), pod("db", {})],
            id="a weight that counts in both directions",
        ),
        pytest.param(
            [
                pod("web", weight(10, "db", symmetric=True)),
                pod("db", weight(-4, "web", symmetric=True)),
            ],
            id="a weight that is greater than the other's",
        ),
        pytest.param(
            [pod("web", prefer(7, selecting("db"))), pod("db", prefer(-7, selecting("web", "l3")))],
            id="preferred rules at different levels",
        ),
        pytest.param(
            [pod("web", weight(10, "db", key="pod/name")), pod("db", {}, kind="Deployment")],
            id="a name that pods of a workload have not",
        ),
        pytest.param(
            [pod("web", weight(10, "x", key="pod/labels/pod-template-hash")), pod("db", {})],
            id="a label that controllers give",
        ),
        pytest.param(
            [
                pod("web", apart(selecting("web")), kind="Deployment"),
                pod("db", apart(selecting("db")), kind="Deployment"),
            ],
            id="replicas that keep apart from their like",
        ),
        pytest.param(
            [pod("web", apart(selecting("db"))), pod("db", apart(selecting("web")))],
            id="who keeps apart in both directions",
        ),
    ],
)
def test_what_can_hold_is_not_told(tmp_path: Path, pods: list[str]) -> None:
    assert advice(tmp_path, pods, "--machine", TWO_NODES) == []


@pytest.mark.parametrize(
    ("pods", "told", "first"),
    [
        pytest.param(
            [pod("web", apart(selecting("web"))) for _ in range(3)],
            ["pod 'shop/web'"] * 2,
            0,
            id="one pod in three editions, which never run beside one another",
        ),
        pytest.param(
            [
                pod("web", weight(10, "db", symmetric=True)),
                pod("db", {}, kind="Deployment"),
                pod("db", weight(-10, "web", symmetric=True), kind="Deployment"),
            ],
            ["Deployment 'shop/db'"],
            1,
            id="another edition of a workload",
        ),
        pytest.param(
            [pod("web", {}), pod("web", {}, namespace="other"), pod("web", {}, kind="Job")],
            [],
            0,
            id="others of the same name",
        ),
    ],
)
def test_an_object_in_several_files_is_told_and_only_the_first_is_compared(
    tmp_path: Path, pods: list[str], told: list[str], first: int
) -> None:
    found = advice(tmp_path, pods, "--machine", TWO_NODES)
    where = f"is in {tmp_path / f'pod{first}.yaml'}:1 as well, and a cluster has one"
    fix = "leave one of them out: applied together, the later one replaces the other"
    assert found == [f"{one}: {where} — {fix}" for one in told]


def test_a_configuration_may_have_weights_count_in_both_directions(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(SYMMETRIC)
    pods = [pod("web", weight(10, "db")), pod("db", {})]
    assert advice(tmp_path, pods, "--config", str(config)) == []
    pods = [pod("web", weight(10, "db")), pod("db", weight(-10, "web"))]
    (found,) = advice(tmp_path, pods, "--config", str(config))
    assert "cancel each other" in found


@pytest.mark.parametrize(
    ("machine", "count", "told"),
    [
        pytest.param(ONE_NODE, 2, "shop/p1/main, and this machine has 1 NUMA node — ", id="two"),
        pytest.param(TWO_NODES, 2, "", id="two have a NUMA node each"),
        pytest.param(
            TWO_NODES, 3, "p1/main, shop/p2/main, and this machine has 2 NUMA nodes", id="three"
        ),
        pytest.param("", 3, "", id="without a machine nobody knows"),
    ],
)
def test_more_who_keep_apart_than_there_are_domains(
    tmp_path: Path, machine: str, count: int, told: str
) -> None:
    everybody: dict[str, Any] = {"labelSelector": {}, "topologyKey": "numa"}
    pods = [pod(f"p{number}", apart(everybody)) for number in range(count)]
    found = advice(tmp_path, pods, *(("--machine", machine) if machine else ()))
    assert len(found) == bool(told)
    assert all(told in one and "p0/main: it must keep apart from shop/" in one for one in found)


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        pytest.param({}, "this machine has 1 NUMA node with CPUs for them", id="on shared CPUs"),
        pytest.param(
            {
                "exclusive.pinfold.dev/pod": "1",
                "prefer-isolated-cpus.resource-policy.nri.io/pod": "true",
            },
            "",
            id="on isolated ones",
        ),
    ],
)
def test_domains_of_isolated_cpus_count_for_those_that_may_have_them(
    tmp_path: Path, annotations: dict[str, str], told: str
) -> None:
    everybody: dict[str, Any] = {"labelSelector": {}, "topologyKey": "numa"}
    pods = [pod(f"p{number}", apart(everybody) | annotations) for number in range(2)]
    found = advice(tmp_path, pods, "--machine", f"{TWO_NODES} isolated:8-15")
    assert [told in one for one in found] == [True] * bool(told)


def test_domains_of_a_level_that_the_machine_lacks_are_those_of_a_wider_one(
    tmp_path: Path,
) -> None:
    everybody: dict[str, Any] = {"labelSelector": {}, "topologyKey": "cluster"}
    pods = [pod(f"p{number}", apart(everybody)) for number in range(2)]
    (found,) = advice(tmp_path, pods, "--machine", "socket:1 numa:2 core:4 mem:4G")
    assert ", and this machine has 1 L3 group and no clusters — not all of them" in found


def of_app(name: str, app: str, rules: dict[str, str]) -> str:
    return pod(name, rules).replace(f'"app": "{name}"', f'"app": "{app}"')


@pytest.mark.parametrize(
    ("rules", "back", "told"),
    [
        pytest.param(weight(10, "b"), weight(-10, "a"), "are opposed", id="weights"),
        pytest.param(
            prefer(7, selecting("b")),
            prefer(-7, selecting("a")),
            "cancel each other",
            id="preferred rules",
        ),
    ],
)
def test_a_rule_about_many_is_told_of_once(
    tmp_path: Path, rules: dict[str, str], back: dict[str, str], told: str
) -> None:
    pods = [of_app(f"a{number}", "a", rules) for number in range(3)]
    pods += [of_app(f"b{number}", "b", back) for number in range(4)]
    found = advice(tmp_path, pods)
    assert len(found) == 3
    assert all(f"of shop/a{number}/main: " in one for number, one in enumerate(found))
    assert all(f"of shop/b0/main {told}" in one for one in found)


def test_who_keeps_apart_is_looked_for_once() -> None:
    def calls(count: int) -> int:
        check = FileCheck(None, machine_from_spec("socket:2 numa:2 core:16 mem:8G"))
        everybody: dict[str, Any] = {"labelSelector": {}, "topologyKey": "core"}
        text = "\n---\n".join(pod(f"p{number}", apart(everybody)) for number in range(count))
        assert not list(check.complaints("pods.yaml", text))
        return count_calls(lambda: list(check.between_pods()))

    # Each is held against each other, and not each against those that others are held against.
    assert calls(60) < 5 * calls(30)


def test_the_place_is_that_of_the_rule_in_its_file(tmp_path: Path) -> None:
    result = lint(tmp_path, [pod("db", {}), pod("web", weight(10, "db"))])
    line = next(
        number
        for number, text in enumerate((tmp_path / "pod1.yaml").read_text().splitlines(), start=1)
        if "pinfold.dev/affinity" in text
    )
    first = result.stdout.splitlines()[0]
    assert first.startswith(f"{tmp_path}/pod1.yaml:{line}:")
    assert ": advice: pinfold.dev/affinity of shop/web/main: the rule counts when" in first


FIRM = {"on-unsatisfiable.pinfold.dev/pod": "fail"}
WAITS = "alone it is refused: it must be with containers that are not there"


@pytest.mark.parametrize(
    ("pods", "waiting"),
    [
        pytest.param({"web": "db", "db": "web"}, ["web", "db"], id="two for one another"),
        pytest.param(
            {"web": "db", "db": "cache", "cache": "web", "log": "web"},
            ["web", "db", "cache", "log"],
            id="three in a ring, and one for these",
        ),
        pytest.param({"web": "db", "db": ""}, [], id="one for another that is free"),
        pytest.param({"web": "web", "db": "web"}, [], id="one for its own kind, which may begin"),
        pytest.param({"web": "elsewhere"}, [], id="one for somebody in no file"),
    ],
)
def test_who_must_wait_for_one_another_is_told(
    tmp_path: Path, pods: dict[str, str], waiting: list[str]
) -> None:
    texts = [pod(one, {**near(selecting(app)), **FIRM} if app else {}) for one, app in pods.items()]
    found = advice(tmp_path, texts)
    assert [text.partition("of shop/")[2].partition("/main: ")[0] for text in found] == waiting
    assert all("which is refused before others are" in text for text in found)
    gives_way = [text.replace('"fail"', '"degrade"') for text in texts]
    assert advice(tmp_path, gives_way) == []


def test_who_must_be_with_another_is_no_fault_where_each_is_placed_alone(tmp_path: Path) -> None:
    machine = ("--machine", TWO_NODES)
    web = pod("web", {**near(selecting("db")), **FIRM})
    (found,) = advice(tmp_path, [pod("db", {}), web], *machine)
    assert found == f"shop/web/main: {WAITS} — have those placed before it"


def test_who_waits_for_another_is_refused_where_there_is_no_room_at_all(tmp_path: Path) -> None:
    wide = pod("web", {**near(selecting("db")), **FIRM}).replace(
        '"name": "main"', '"name": "main", "resources": {"limits": {"cpu": 99, "memory": "1Mi"}}'
    )
    result = lint(tmp_path, [wide], "--machine", TWO_NODES)
    assert result.exit_code == 1
    assert "refused: no pool has room for 99 exclusive CPUs" in result.stdout

"""Hints as text, and what they mean on a machine."""

import pytest

from pinfold.policy.hints.hint_place import resolve
from pinfold.policy.hints.hint_text import annotated_hints, hint_of_texts
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from pinfold.policy.model.hint import Hint, HintOrigin, parse_sockets
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, NumaNode, NumaNodeId
from pinfold.topology.sets.cpuset import CpuSet, IdListError, NodeSet

KEY = "test.topologyhints.resource-policy.nri.io"


def found(provider: str = "/sys/devices/x", cpus: str = "", numas: str = "") -> Hint:
    return Hint(
        provider=provider,
        origin=HintOrigin.DEVICE,
        cpus=CpuSet.parse(cpus),
        numa_nodes=NodeSet.parse(numas),
    )


def annotated(text: str, key: str = f"{KEY}/pod") -> tuple[tuple[Hint, ...], list[str]]:
    pod = Pod(id=PodId("p"), name="web", annotations={key: text})
    hints, problems = annotated_hints(Container(id=ContainerId("c"), name="nginx", pod=pod))
    return hints, [str(problem) for problem in problems]


def with_bare_nodes() -> Machine:
    """Two NUMA nodes with two cpus each, and nodes 4, 5, 6 without: near 0, near 1, near both."""
    machine = machine_from_spec("socket:2 core:2")
    nodes = (*machine.numa_nodes, *(NumaNode(id=NumaNodeId(one)) for one in (4, 5, 6)))
    distances = (
        (10, 20, 17, 28, 17),
        (20, 10, 28, 17, 17),
        (17, 28, 10, 12, 12),
        (28, 17, 12, 10, 12),
        (17, 17, 12, 12, 10),
    )
    fields = {
        name: getattr(machine, name)
        for name in ("online", "present", "possible", "cpus", "sockets", "dies", "cores")
    }
    return Machine(**fields, numa_nodes=nodes, distances=distances)


@pytest.mark.parametrize(
    ("text", "sockets"),
    [
        pytest.param("", (), id="an empty list names no socket"),
        pytest.param("1,2", (1, 2), id="a list is split at its commas"),
        pytest.param("0-1", (0, 1), id="a range names all between its ends"),
        pytest.param("3, 0-1", (0, 1, 3), id="blanks do not matter"),
    ],
)
def test_sockets_are_lists_with_ranges(text: str, sockets: tuple[int, ...]) -> None:
    assert parse_sockets(text) == sockets


@pytest.mark.parametrize("text", ["unparsable", "1-", "0x1", "99999999999"])
def test_what_is_no_list_of_sockets_is_an_error(text: str) -> None:
    with pytest.raises(IdListError):
        parse_sockets(text)


def test_a_broken_list_says_nothing_and_the_others_are_kept() -> None:
    hint, problems = hint_of_texts("gpu", "here", cpus="0-3", numas="first", sockets="1-")
    assert (hint.cpus, hint.numa_nodes, hint.sockets) == (CpuSet.parse("0-3"), NodeSet(), ())
    assert [problem.where for problem in problems] == ["here: NUMAs", "here: Sockets"]
    assert "'first' is not a list of ids" in problems[0].what
    assert not any(problem.is_fatal for problem in problems)


def test_the_test_annotation_holds_hints_by_name() -> None:
    hints, problems = annotated(
        "nic: {CPUs: '0-1', numas: 1}\ngpu:\n  Provider: /sys/devices/gpu\n  Sockets: 0-1\n"
    )
    assert problems == []
    assert hints == (
        Hint(
            provider="nic",
            origin=HintOrigin.TEST,
            cpus=CpuSet.of(0, 1),
            numa_nodes=NodeSet.of(1),
        ),
        Hint(provider="/sys/devices/gpu", origin=HintOrigin.TEST, sockets=(0, 1)),
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        pytest.param("[4, 8]", (4, 8), id="a list"),
        pytest.param("'4,8'", (4, 8), id="a text"),
        pytest.param("4", (4,), id="one number"),
        pytest.param("[]", (), id="none"),
    ],
)
def test_a_test_hint_names_the_interrupts_of_its_device(
    text: str, numbers: tuple[int, ...]
) -> None:
    (hint,), problems = annotated(f"nic: {{NUMAs: '0', IRQs: {text}}}")
    assert (hint.interrupts, problems) == (numbers, [])


@pytest.mark.parametrize(
    ("key", "count"),
    [
        pytest.param(f"{KEY}/container.nginx", 1, id="for the container itself"),
        pytest.param(f"{KEY}/container.redis", 0, id="for another container"),
        pytest.param(KEY, 1, id="for all containers of the pod"),
        pytest.param("unrelated", 0, id="under another key"),
    ],
)
def test_the_test_annotation_is_for_those_it_names(key: str, count: int) -> None:
    hints, _ = annotated("nic: {CPUs: '0-1'}", key)
    assert len(hints) == count


@pytest.mark.parametrize(
    ("text", "count", "problem"),
    [
        pytest.param("[nic]", 0, "not a mapping", id="a list"),
        pytest.param("{", 0, "not valid YAML", id="no YAML"),
        pytest.param("a: 0-1\nb: {CPUs: 0}", 1, "a hint that is no mapping", id="one is a text"),
        pytest.param("a: {CPU: 0}\nb: {CPUs: 0}", 1, "did you mean 'CPUs'?", id="a slip"),
        pytest.param(
            "a: {CPUs: x, cpus: 0}\nb: {CPUs: 0}", 1, "nginx:1:14: 'cpus' is", id="a field twice"
        ),
        pytest.param("a: {CPUs: [0]}\nb: {CPUs: 0}", 1, "is not a text", id="a list of numbers"),
        pytest.param(
            "b: {CPUs: 0}\na: {CPUs: x}", 2, "nginx:2:11: a: CPUs: 'x' is not", id="no number"
        ),
        pytest.param(
            "a: {IRQs: x}\nb: {CPUs: 0}", 2, "nginx:1:11: a: IRQs: 'x' is not", id="no interrupt"
        ),
        pytest.param(
            "a: {IRQs: [1, 9999999999]}", 1, "a: IRQs: '9999999999' is not", id="no such interrupt"
        ),
        pytest.param(
            "{a: {CPUs: 0}} }",
            1,
            "web/nginx:1:16: left out from here on: not valid",
            id="a bracket",
        ),
        pytest.param(
            "a: {CPUs: 0}\n---\nb: {}", 1, "left out from here on: a second", id="a second text"
        ),
    ],
)
def test_what_is_wrong_in_the_test_annotation_is_told(text: str, count: int, problem: str) -> None:
    hints, problems = annotated(text)
    assert len(hints) == count
    assert len(problems) == 1
    assert problems[0].startswith(f"{KEY}/pod of default/web/nginx")
    assert problem in problems[0]


@pytest.mark.parametrize("text", ["", "~", "# nothing"])
def test_an_empty_test_annotation_holds_nothing(text: str) -> None:
    assert annotated(text) == ((), [])


@pytest.mark.parametrize(
    ("hint", "cpus", "nodes"),
    [
        pytest.param(found(cpus="1"), "1", "", id="cpus are themselves, and no node"),
        pytest.param(found(cpus="1,9"), "1", "", id="cpus that are not there are left out"),
        pytest.param(found(numas="1"), "2-3", "1", id="a node is its cpus"),
        pytest.param(found(cpus="0", numas="0"), "0", "0", id="cpus are nearer than the node"),
        pytest.param(found(numas="0-1"), "0-3", "0-1", id="several nodes are all their cpus"),
        pytest.param(found(numas="4"), "0-1", "0,4", id="a node without cpus is near another"),
        pytest.param(found(numas="5"), "2-3", "1,5", id="and that is not always the first"),
        pytest.param(found(numas="6"), "0-3", "0-1,6", id="or near two of them"),
        pytest.param(found(numas="1,4"), "0-3", "0-1,4", id="each node stands for itself"),
    ],
)
def test_a_hint_means_online_cpus(hint: Hint, cpus: str, nodes: str) -> None:
    resolved, problems = resolve(hint, with_bare_nodes(), "here")
    assert resolved is not None
    assert (str(resolved.cpus), str(resolved.numa_nodes)) == (cpus, nodes)
    assert problems == ()


def test_a_socket_is_its_cpus() -> None:
    hint = Hint(provider="x", origin=HintOrigin.TEST, sockets=(1,))
    resolved, _ = resolve(hint, machine_from_spec("socket:2 numa:2 core:2"), "here")
    assert resolved is not None
    assert str(resolved.cpus) == "4-7"


@pytest.mark.parametrize(
    ("hint", "cpus", "problem"),
    [
        pytest.param(
            found(numas="1,7"),
            "2-3",
            "here: there is no NUMA node 7 — NUMA nodes are 0-1,4-6",
            id="a node that is not there",
        ),
        pytest.param(
            found(cpus="64-71", numas="1"),
            "2-3",
            "here: none of cpus 64-71 is online — cpus are 0-3",
            id="cpus that are not there, where the node helps",
        ),
        pytest.param(
            found(cpus="64"),
            None,
            "here: none of cpus 64 is online — cpus are 0-3",
            id="cpus that are not there, and nothing else",
        ),
        pytest.param(
            Hint(provider="x", origin=HintOrigin.TEST, sockets=(0, 3, 4)),
            "0-1",
            "here: there is no socket 3,4 — sockets are 0,1",
            id="sockets that are not there",
        ),
    ],
)
def test_what_is_not_there_is_told_and_passed_over(
    hint: Hint, cpus: str | None, problem: str
) -> None:
    resolved, problems = resolve(hint, with_bare_nodes(), "here")
    assert (None if resolved is None else str(resolved.cpus)) == cpus
    assert [str(one) for one in problems] == [problem]


def test_on_a_machine_whose_nodes_all_lack_cpus_a_node_means_nothing() -> None:
    machine = with_bare_nodes()
    bare = Machine(
        online=machine.online,
        present=machine.present,
        possible=machine.possible,
        cpus=machine.cpus,
        sockets=machine.sockets,
        dies=machine.dies,
        cores=machine.cores,
        numa_nodes=machine.numa_nodes[2:],
    )
    assert resolve(found(numas="4"), bare, "here") == (None, ())

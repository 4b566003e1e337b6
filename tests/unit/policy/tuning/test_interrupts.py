import pytest

from pinfold.policy.annotations.annotation_values import IrqAffinity, IrqMode
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.placing.classifier import Classified, Classifier
from pinfold.policy.tuning.interrupts import Interrupt, InterruptTable, Routing, route
from pinfold.topology.sets.cpuset import CpuSet

ETH0 = Interrupt(number=4, description="PCI-MSI eth0-rx", affinity=CpuSet.parse("0-7"))
ETH1 = Interrupt(number=14, description="PCI-MSI eth1-rx", affinity=CpuSet.parse("0-7"))
DISK = Interrupt(number=5, description="PCI-MSI nvme0q1", affinity=CpuSet.parse("2"))
ALL = (ETH0, ETH1, DISK)
ALLOWED = CpuSet.parse("0-6")
KEY = "irq-affinity.resource-policy.nri.io"


def classify(
    annotations: dict[str, str],
    milli: int = 1000,
    qos: str = "Guaranteed",
    interrupts: tuple[int, ...] = (),
) -> Classified:
    container = Container(
        id=ContainerId("c"),
        name="c",
        pod=Pod(id=PodId("p"), name="p", annotations=annotations, qos=QosClass(qos)),
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli),
        hints=(Hint(provider="/sys/nic", origin=HintOrigin.DEVICE, interrupts=interrupts),),
    )
    config = config_from_values({"controllableInterrupts": ["*eth*"]})
    return Classifier(config, ALL).classify(container)


def routed(wishes: list[tuple[IrqAffinity, str]], table: InterruptTable | None = None) -> Routing:
    asked = [(wish, CpuSet.parse(cpus)) for wish, cpus in wishes]
    return route(table or InterruptTable(ALL), asked, ALLOWED)


@pytest.mark.parametrize(
    ("annotations", "milli", "qos", "is_granted"),
    [
        pytest.param({}, 1000, "Guaranteed", False, id="nothing is asked"),
        pytest.param({f"{KEY}/container.c": "claim: ['*eth0*']"}, 1000, "Guaranteed", True, id="a"),
        pytest.param({f"{KEY}/pod": "mask: [4]"}, 2000, "Guaranteed", True, id="by number"),
        pytest.param(
            {f"{KEY}/pod": "claim: ['*eth0*']"},
            1000,
            "Burstable",
            False,
            id="a pod's wish is passed over where the pod is not guaranteed",
        ),
        pytest.param(
            {KEY: "claim: ['*eth0*']"},
            500,
            "Guaranteed",
            False,
            id="a pod's wish is passed over for containers without a cpu for themselves",
        ),
    ],
)
def test_wishes_that_can_be_had(
    annotations: dict[str, str], milli: int, qos: str, is_granted: bool
) -> None:
    classified = classify(annotations, milli, qos)
    assert (classified.irq is not None) == is_granted
    assert classified.problems == ()


@pytest.mark.parametrize(
    ("annotations", "milli", "qos", "expected"),
    [
        pytest.param(
            {f"{KEY}/container.c": "claim: ['*eth0*']"},
            1000,
            "Burstable",
            "irq-affinity.resource-policy.nri.io/container.c of default/p/c: invalid IRQ affinity,"
            " QoS class Burstable is not Guaranteed — set limits equal to requests",
            id="not guaranteed",
        ),
        pytest.param(
            {f"{KEY}/container.c": "mask: ['*']"},
            500,
            "Guaranteed",
            "irq-affinity.resource-policy.nri.io/container.c of default/p/c: IRQ affinity is"
            " invalid without exclusive CPUs — ask for whole cpus",
            id="no cpu for itself",
        ),
        pytest.param(
            {
                f"{KEY}/container.c": "mask: ['*']",
                "prefer-shared-cpus.resource-policy.nri.io/container.c": "true",
            },
            2000,
            "Guaranteed",
            "irq-affinity.resource-policy.nri.io/container.c of default/p/c: IRQ affinity is"
            " invalid without exclusive CPUs — leave out"
            " prefer-shared-cpus.resource-policy.nri.io/container.c, which makes it share its cpus",
            id="whole cpus that it shares by an annotation",
        ),
        pytest.param(
            {f"{KEY}/pod": "mask: ['*nvme*']"},
            1000,
            "Guaranteed",
            "irq-affinity.resource-policy.nri.io/pod of default/p/c: denied interrupt: 5 (PCI-MSI"
            " nvme0q1) is denied but matched by user pattern '*nvme*' — add it to"
            " controllableInterrupts or name another",
            id="an interrupt that is not controllable",
        ),
    ],
)
def test_wishes_that_refuse_the_container(
    annotations: dict[str, str], milli: int, qos: str, expected: str
) -> None:
    classified = classify(annotations, milli, qos)
    (problem,) = classified.problems
    assert problem.is_fatal
    assert str(problem) == expected
    assert classified.irq is None


@pytest.mark.parametrize(
    ("text", "interrupts", "claim", "advice"),
    [
        pytest.param("devices: ['*']", (4, 14), ("4", "14"), "", id="all of its devices"),
        pytest.param("devices: ['*eth0*']", (4, 14), ("4",), "", id="those that match"),
        pytest.param(
            "{claim: [14], devices: ['*', 4]}", (4,), ("14", "4"), "", id="a claim besides"
        ),
        pytest.param("devices: ['*']", (4, 5), ("4",), "", id="but those that may not move"),
        pytest.param(
            "devices: ['*']", (5,), (), "none of 1 matches and may be moved", id="none may move"
        ),
        pytest.param(
            "devices: ['*eth1*']", (4,), (), "none of 1 matches and may be moved", id="none matches"
        ),
        pytest.param("devices: ['*']", (), (), "none is known", id="no device has any"),
    ],
)
def test_interrupts_of_its_devices_are_claimed(
    text: str, interrupts: tuple[int, ...], claim: tuple[str, ...], advice: str
) -> None:
    classified = classify({f"{KEY}/container.c": text}, interrupts=interrupts)
    assert classified.irq is not None
    assert (classified.irq.claim, classified.irq.devices) == (claim, ())
    assert [problem.is_advice for problem in classified.problems] == [True] * bool(advice)
    assert advice in "".join(map(str, classified.problems))


def test_interrupts_of_devices_whose_hints_are_turned_off_are_not_claimed() -> None:
    annotations = {KEY: "devices: ['*']", "topologyhints.resource-policy.nri.io": "none"}
    classified = classify(annotations, interrupts=(4,))
    assert classified.irq is not None
    assert classified.irq.claim == ()


def test_a_broken_pattern_of_devices_refuses_the_container() -> None:
    (problem,) = classify({f"{KEY}/container.c": "devices: ['[abc']"}, interrupts=(4,)).problems
    assert problem.is_fatal
    assert "invalid IRQ affinity devices pattern" in problem.what


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        pytest.param([], {}, id="nobody asks, nothing moves"),
        pytest.param([(("*eth0*",), (), "3")], {4: "3"}, id="a claim"),
        pytest.param(
            [(("4",), (), "3"), (("*eth0*",), (), "6")], {4: "3,6"}, id="two claims, one by number"
        ),
        pytest.param([((), ("*eth*",), "1-2")], {4: "0,3-7", 14: "0,3-7"}, id="a mask"),
        pytest.param(
            [((), ("*nvme*",), "2")], {5: "0-1,3-6"}, id="off its only cpu: all that are usable"
        ),
        pytest.param(
            [(("*eth0*",), ("*",), "3")],
            {4: "3", 14: "0-2,4-7", 5: "2"},
            id="some claimed, all others masked",
        ),
        pytest.param(
            [(("*eth0*",), (), "3-4"), ((), ("*eth0*",), "4-5")],
            {4: "3-4"},
            id="a claim beats another's mask",
        ),
    ],
)
def test_interrupts_go_where_they_are_wanted(
    wishes: list[tuple[tuple[str, ...], tuple[str, ...], str]], expected: dict[int, str]
) -> None:
    asked = [(IrqAffinity(claim=claim, mask=mask), cpus) for claim, mask, cpus in wishes]
    routing = routed(asked)
    assert {number: str(cpus) for number, cpus in routing.targets.items()} == expected
    assert routing.warnings == ()


def test_masks_come_before_claims_where_the_mode_says_so() -> None:
    claim = IrqAffinity(claim=("*eth0*",))
    mask = IrqAffinity(mask=("*eth0*",), mode=IrqMode.CLAIM_FIRST)
    assert str(routed([(claim, "3-4"), (mask, "4-5")]).targets[4]) == "3"


def test_an_interrupt_that_is_masked_everywhere_stays_and_says_so() -> None:
    routing = routed([(IrqAffinity(mask=("*nvme*",)), "0-6")])
    assert routing.targets == {5: DISK.affinity}
    assert routing.warnings == (
        "interrupt 5 (PCI-MSI nvme0q1): masked on every cpu it could go to, so it stays on 2"
        " — mask it in fewer containers",
    )


def test_what_is_not_controllable_never_moves() -> None:
    table = InterruptTable(ALL, ["*eth1*"])
    assert routed([(IrqAffinity(mask=("*",)), "3")], table).targets.keys() == {14}
    assert table.denied("*eth*") == ETH0
    assert table.denied("14") is None
    assert InterruptTable(ALL, []).denied("*") is None


def many(count: int) -> tuple[Interrupt, ...]:
    return tuple(
        Interrupt(number=number, description=f"PCI-MSI mlx5_comp{number}", affinity=ALLOWED)
        for number in range(count)
    )


def wished(claim: str, interrupts: tuple[Interrupt, ...]) -> Classified:
    pod = Pod(
        id=PodId("p"),
        name="p",
        annotations={f"{KEY}/container.c": f"claim: [{claim}]"},
        qos=QosClass.GUARANTEED,
    )
    resources = Resources(cpu_request_milli=1000, cpu_limit_milli=1000)
    container = Container(id=ContainerId("c"), name="c", pod=pod, resources=resources)
    return Classifier(Config(), interrupts).classify(container)


@pytest.mark.parametrize(
    ("claim", "is_granted"),
    [
        pytest.param("'*comp1*', '*comp2*', 17", True, id="words beside stars are cheap"),
        pytest.param("'*comp?'", True, id="one glob over all of them"),
        pytest.param("'*a?', '*b?', '*c?', '*d?'", False, id="several globs over all of them"),
        pytest.param(", ".join(f"'*{n}*'" for n in range(200)), False, id="hundreds of words"),
        pytest.param("'" + "[a-z]" * 90 + "'", False, id="one glob of many classes"),
    ],
)
def test_patterns_that_are_dear_to_look_up_are_left_out_and_refuse_nobody(
    claim: str, *, is_granted: bool
) -> None:
    classified = wished(claim, many(1000))
    assert (classified.irq is not None) == is_granted
    assert [problem.is_fatal for problem in classified.problems] == [False] * (not is_granted)


def test_patterns_of_strangers_are_not_remembered_for_ever() -> None:
    table = InterruptTable(ALL, ["*eth1*"])
    patterns = [f"*{number}*" for number in range(1000)]
    for one in patterns:
        table.matching(one)
    assert sum(not table.steps(IrqAffinity(claim=(one,))) for one in patterns) <= 256

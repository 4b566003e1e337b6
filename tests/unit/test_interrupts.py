import pytest

from pinfold.policy.config import Config
from pinfold.policy.configtext import config_from_values
from pinfold.policy.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.interrupts import Interrupt, objection, targets, wish
from pinfold.policy.settings import IrqAffinity, IrqMode
from pinfold.topology.cpuset import CpuSet

ETH0 = Interrupt(number=4, description="PCI-MSI eth0-rx", affinity=CpuSet.parse("0-7"))
ETH1 = Interrupt(number=14, description="PCI-MSI eth1-rx", affinity=CpuSet.parse("0-7"))
DISK = Interrupt(number=5, description="PCI-MSI nvme0q1", affinity=CpuSet.parse("2"))
KEY = "irq-affinity.resource-policy.nri.io"


def container(annotations: dict[str, str], milli: int = 1000, qos: str = "Guaranteed") -> Container:
    return Container(
        id=ContainerId("c"),
        name="c",
        pod=Pod(id=PodId("p"), name="p", annotations=annotations, qos=QosClass(qos)),
        resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli),
    )


@pytest.mark.parametrize(
    ("annotations", "milli", "qos", "expected"),
    [
        pytest.param({}, 1000, "Guaranteed", "", id="nothing asked"),
        pytest.param(
            {f"{KEY}/container.c": "claim: ['*eth0*']"}, 1000, "Guaranteed", "", id="a fair claim"
        ),
        pytest.param(
            {f"{KEY}/container.c": "claim: ['*eth0*']"},
            1000,
            "Burstable",
            "default/p/c: invalid IRQ affinity, QoS class Burstable is not Guaranteed",
            id="not guaranteed",
        ),
        pytest.param(
            {f"{KEY}/pod": "claim: ['*eth0*']"}, 1000, "Burstable", "", id="asked for the whole pod"
        ),
        pytest.param(
            {f"{KEY}/container.c": "mask: ['*']"},
            500,
            "Guaranteed",
            "default/p/c: IRQ affinity is invalid without exclusive CPUs — ask for whole cpus",
            id="no cpu for itself",
        ),
        pytest.param(
            {f"{KEY}/pod": "mask: ['*nvme*']"},
            1000,
            "Guaranteed",
            "default/p/c: denied interrupt: 5 (PCI-MSI nvme0q1) is denied but matched by user"
            " pattern '*nvme*' — add it to controllableInterrupts or name another",
            id="an interrupt that is not controllable",
        ),
    ],
)
def test_objections_say_why(
    annotations: dict[str, str], milli: int, qos: str, expected: str
) -> None:
    config = config_from_values({"controllableInterrupts": ["*eth*"]})
    one = container(annotations, milli, qos)
    assert objection(one, config, [ETH0, ETH1, DISK]) == expected
    assert (wish(one, config) is None) is (not annotations or milli < 1000 or qos != "Guaranteed")


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        pytest.param([], ("0-7", "0-7", "2"), id="nobody asks: as found"),
        pytest.param([(("*eth0*",), (), "3")], ("3", "0-7", "2"), id="a claim"),
        pytest.param(
            [(("4",), (), "3"), (("*eth0*",), (), "6")], ("3,6", "0-7", "2"), id="by its number"
        ),
        pytest.param([((), ("*eth*",), "1-2")], ("0,3-7", "0,3-7", "2"), id="a mask"),
        pytest.param([((), ("*",), "2")], ("0-1,3-7", "0-1,3-7", "2"), id="nothing would be left"),
        pytest.param([(("*eth0*",), ("*",), "3")], ("3", "0-2,4-7", "2"), id="both of one"),
        pytest.param(
            [(("*eth0*",), (), "3-4"), ((), ("*eth0*",), "4-5")],
            ("3-4", "0-7", "2"),
            id="a claim beats another's mask",
        ),
    ],
)
def test_interrupts_go_where_they_are_wanted(
    wishes: list[tuple[tuple[str, ...], tuple[str, ...], str]], expected: tuple[str, ...]
) -> None:
    asked = [
        (IrqAffinity(claim=claim, mask=mask), CpuSet.parse(cpus)) for claim, mask, cpus in wishes
    ]
    found = targets([ETH0, ETH1, DISK], asked, Config())
    assert (str(found[4]), str(found[14]), str(found[5])) == expected


def test_masks_come_before_claims_where_the_mode_says_so() -> None:
    claim = (IrqAffinity(claim=("*eth0*",)), CpuSet.parse("3-4"))
    mask = (IrqAffinity(mask=("*eth0*",), mode=IrqMode.CLAIM_FIRST), CpuSet.parse("4-5"))
    assert str(targets([ETH0], [claim, mask], Config())[4]) == "3"


def test_what_is_not_controllable_has_no_target() -> None:
    config = config_from_values({"controllableInterrupts": ["*eth1*"]})
    assert targets([ETH0, ETH1], [], config).keys() == {14}

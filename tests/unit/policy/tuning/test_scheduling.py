import pytest

from pinfold.policy.annotations.preferences import parse_preferences
from pinfold.policy.configuration.config import SchedulingClass
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass
from pinfold.policy.text.errors import Problem
from pinfold.policy.tuning.scheduling import scheduling_class, scheduling_values

CONFIG = config_from_values(
    {
        "schedulingClasses": [
            {"name": "fast", "policy": "fifo", "priority": 7},
            {"name": "slow", "policy": "idle", "ioClass": "be", "ioPriority": 6},
            {"name": "plain", "policy": "other", "nice": 0},
        ],
        "namespaceSchedulingClasses": {"batch": "slow"},
        "podQoSSchedulingClasses": {"burstable": "plain"},
    }
)
KEY = "scheduling-class.resource-policy.nri.io"


def container(namespace: str, qos: QosClass, annotations: dict[str, str]) -> Container:
    pod = Pod(id=PodId("p"), name="p", namespace=namespace, qos=qos, annotations=annotations)
    return Container(id=ContainerId("c"), name="c", pod=pod)


@pytest.mark.parametrize(
    ("namespace", "qos", "annotations", "expected"),
    [
        pytest.param("a", QosClass.BEST_EFFORT, {}, None, id="nobody says anything"),
        pytest.param("a", QosClass.BURSTABLE, {}, "plain", id="the class of the QoS"),
        pytest.param("batch", QosClass.BURSTABLE, {}, "slow", id="the namespace beats the QoS"),
        pytest.param("batch", QosClass.BURSTABLE, {KEY: "fast"}, "fast", id="an annotation wins"),
    ],
)
def test_the_most_specific_class_counts(
    namespace: str, qos: QosClass, annotations: dict[str, str], expected: str | None
) -> None:
    one = container(namespace, qos, annotations)
    chosen = scheduling_class(one, parse_preferences(one), CONFIG)
    assert not isinstance(chosen, Problem)
    assert (chosen.name if chosen else None) == expected


def test_an_unknown_class_is_a_problem() -> None:
    one = container("a", QosClass.BURSTABLE, {KEY: "fats"})
    chosen = scheduling_class(one, parse_preferences(one), CONFIG)
    assert isinstance(chosen, Problem)
    assert str(chosen) == (
        "scheduling-class of a/p/c: no scheduling class 'fats' — did you mean 'fast'?"
    )


def test_only_what_a_class_says_is_set() -> None:
    fast, slow, _ = CONFIG.scheduling_classes
    assert isinstance(fast, SchedulingClass)
    assert scheduling_values(fast) == {"policy": "fifo", "priority": 7}
    assert scheduling_values(slow) == {"policy": "idle", "ioClass": "be", "ioPriority": 6}

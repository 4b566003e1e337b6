import pytest

from pinfold.nri.cri.uncarried_classes import UncarriedClasses
from pinfold.nri.dispatch.answer import Answer
from pinfold.nri.dispatch.report import Happening, Unsupported
from pinfold.policy.configuration.config import Config, OnBadAnnotation, SchedulingClass
from pinfold.policy.tuning.resource_class import ResourceClasses

FAIL = Config(on_bad_annotation=OnBadAnnotation.FAIL)
SCHEDULED = Answer(scheduling=SchedulingClass(name="batch"))
CACHED = Answer(classes=ResourceClasses(rdt="gold", blockio="slow"))


@pytest.mark.parametrize("config", [Config(), FAIL])
def test_nothing_is_said_where_nothing_is_lost(config: Config) -> None:
    said: list[Happening] = []
    assert UncarriedClasses(said.append).objection(Answer(), config) == ""
    assert said == []


def test_each_class_is_warned_of_once() -> None:
    said: list[Happening] = []
    classes = UncarriedClasses(said.append)
    for answer in (SCHEDULED, CACHED, SCHEDULED, CACHED):
        assert classes.objection(answer, Config()) == ""
    told = [one.what for one in said if isinstance(one, Unsupported)]
    assert [one.partition(":")[0] for one in told] == [
        "scheduling class 'batch'",
        "cache class 'gold'",
        "block device class 'slow'",
    ]


def test_a_class_is_a_reason_to_refuse_where_bad_annotations_are() -> None:
    said: list[Happening] = []
    objection = UncarriedClasses(said.append).objection(CACHED, FAIL)
    assert objection == (
        "cache class 'gold', block device class 'slow': CRI cannot carry it — use --runtime nri"
    )
    assert said == []

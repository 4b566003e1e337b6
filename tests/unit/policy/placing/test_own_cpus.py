"""Requests for cpus by annotation: how many, from which kind, and what they fall back to."""

import pytest

from pinfold.policy.annotations.preferences import parse_preferences
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant
from pinfold.policy.model.request import Request
from pinfold.policy.placing.classifier import Classifier
from pinfold.topology.made.spec import machine_from_spec

THREADS = machine_from_spec("socket:2 core:4 thread:2 mem:4G")
SINGLE = machine_from_spec("socket:2 core:4 mem:4G")
HIDE = "hide-hyperthreads.resource-policy.nri.io"


def container(
    annotations: dict[str, str],
    milli: int = 0,
    qos: QosClass = QosClass.BURSTABLE,
    namespace: str = "default",
    name: str = "c",
) -> Container:
    pod = Pod(id=PodId(name), name=name, namespace=namespace, annotations=annotations, qos=qos)
    resources = Resources(cpu_request_milli=milli)
    return Container(id=ContainerId(name), name=name, pod=pod, resources=resources)


def chain(request: Request) -> list[tuple[int, int]]:
    """Exclusive cpus and the share of a request and of all it falls back to."""
    found = [(request.exclusive, request.shared_milli)]
    return found + (chain(request.fallback) if request.fallback else [])


@pytest.mark.parametrize(
    ("annotations", "milli", "qos", "expected"),
    [
        pytest.param(
            {"exclusive.pinfold.dev": "6"},
            0,
            QosClass.BEST_EFFORT,
            [(6, 0), (0, 0)],
            id="a best-effort container falls back to nothing of its own",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "request"},
            2500,
            QosClass.BURSTABLE,
            [(3, 0), (0, 2500)],
            id="as many as requested, rounded up",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "request"},
            0,
            QosClass.BEST_EFFORT,
            [(0, 0)],
            id="no request, no cpus",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "4"},
            2000,
            QosClass.GUARANTEED,
            [(4, 0), (2, 0)],
            id="a Guaranteed container falls back to what it has by its class",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "4", HIDE: "whole-cores"},
            500,
            QosClass.BURSTABLE,
            [(8, 0), (4, 0), (0, 500)],
            id="whole cores, then cpus, then a share",
        ),
        pytest.param(
            {HIDE: "whole-cores"},
            500,
            QosClass.BURSTABLE,
            [(0, 500)],
            id="whole cores are for those who have cpus for themselves",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "4", "on-unsatisfiable.pinfold.dev": "fail"},
            0,
            QosClass.BEST_EFFORT,
            [(4, 0)],
            id="nothing less will do",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "4", "on-unsatisfiable.pinfold.dev": " Fail"},
            0,
            QosClass.BEST_EFFORT,
            [(4, 0)],
            id="nothing less will do, in capitals",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "4", "on-unsatisfiable.pinfold.dev": "fails"},
            0,
            QosClass.BEST_EFFORT,
            [(4, 0), (0, 0)],
            id="a fate that is none leaves it to the configuration",
        ),
        pytest.param(
            {"exclusive.pinfold.dev": "0"},
            2000,
            QosClass.GUARANTEED,
            [(2, 0)],
            id="what is no number of cpus does not count",
        ),
    ],
)
def test_requests_are_tried_from_own_cpus_down_to_none(
    annotations: dict[str, str], milli: int, qos: QosClass, expected: list[tuple[int, int]]
) -> None:
    classifier = Classifier(Config(), machine=THREADS)
    assert chain(classifier.classify(container(annotations, milli, qos)).request) == expected


@pytest.mark.parametrize("smt", ["pack", "spread", "hide", "any"])
def test_whole_cores_are_as_few_as_asked_for_whatever_smt_says(smt: str) -> None:
    engine = Engine(THREADS, Config())
    wish = {HIDE: "whole-cores", "smt.pinfold.dev": smt}
    decision = engine.create(container(wish, 2000, QosClass.GUARANTEED))
    assert isinstance(decision.result, Grant)
    picked = decision.result.exclusive.mask
    cores = [one.mask for one in THREADS.cores if one.mask & picked]
    assert (len(cores), sum(cores)) == (2, picked)


def test_whole_cores_are_cpus_where_cores_have_one_thread() -> None:
    classifier = Classifier(Config(), machine=SINGLE)
    request = classifier.classify(
        container({"exclusive.pinfold.dev": "2", HIDE: "whole-cores"})
    ).request
    assert (request.exclusive, request.whole_cores) == (2, False)


def test_the_system_stays_on_its_reserved_cpus() -> None:
    request = Classifier(Config(), machine=THREADS).classify(
        container({"exclusive.pinfold.dev": "2"}, namespace="kube-system")
    )
    assert request.request.exclusive == 0


@pytest.mark.parametrize(
    ("annotation", "text", "complaint"),
    [
        ("exclusive.pinfold.dev", "0", "'0' is no number of cpus — write 'request' or"),
        ("exclusive.pinfold.dev", "2.5", "'2.5' is no number of cpus"),
        ("exclusive.pinfold.dev", "9999999999", "is no number of cpus"),
        (HIDE, "whole", "'whole' is not a boolean — write 'true', 'false' or 'whole-cores'"),
    ],
)
def test_a_wrong_value_is_told(annotation: str, text: str, complaint: str) -> None:
    (problem,) = parse_preferences(container({annotation: text})).problems
    assert complaint in str(problem)


def test_what_is_missing_is_told_and_mended_when_there_is_room() -> None:
    config = config_from_values({"reservedResources": {"cpu": "cpuset:0"}})
    engine = Engine(SINGLE, config)
    engine.create(container({"exclusive.pinfold.dev": "6"}, name="first"))
    decision = engine.create(container({"exclusive.pinfold.dev": "4"}, 500, name="second"))
    assert [str(one) for one in decision.problems] == [
        "exclusive.pinfold.dev of default/second/second: no room for 4 CPUs for itself so it runs"
        " on shared ones — ask for fewer, or free some"
    ]
    assert isinstance(decision.result, Grant)
    assert not decision.result.exclusive
    engine.remove(ContainerId("first"))
    engine, _ = engine.reconfigured(config_from_values({"reservedResources": {"cpu": "cpuset:1"}}))
    assert len(engine.grants[ContainerId("second")].exclusive) == 4

import json
import logging
import sys
from pathlib import Path

import pytest
from msgspec import structs

from pinfold.cmd.daemon.runtimes import RuntimeOptionError, find_runtime
from pinfold.cmd.report.decision_log import DecisionLog
from pinfold.cmd.report.log_fields import fields
from pinfold.cmd.report.log_setup import MarkedFormatter
from pinfold.nri.dispatch.report import (
    Answered,
    Crashed,
    Decided,
    Disconnected,
    Happening,
    Outcome,
    Released,
    SocketLost,
    Synchronized,
    Unsupported,
    Updated,
)
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.decision import STUCK, Decision, with_unmet
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.grant import Grant, PoolId, Refusal
from pinfold.policy.model.pinning import Change, Pinning
from pinfold.policy.text.errors import Problem
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

ID = ContainerId("c1")
CONTAINER = Container(id=ID, name="nginx", pod=Pod(id=PodId("p1"), name="web"))
PINNING = Pinning(cpus=CpuSet.of(0, 1), mems=NodeSet.of(0))
DECISION = Decision(
    container_id=ID,
    result=Grant(container_id=ID, pool_id=PoolId(0)),
    pool="NUMA node #0",
    pinning=PINNING,
    decided_by="kept",
)


@pytest.mark.parametrize(
    ("happening", "lines"),
    [
        pytest.param(
            Decided(event="create", container=CONTAINER, decision=DECISION),
            [
                "INFO event=create pod=default/web container=nginx id=c1"
                ' request="0m of CPU" kind=shared pool="NUMA node #0" cpus=0-1 mems=0'
                ' decided_by=kept why="it ran there already" next_best=- updates=0'
            ],
            id="a decision is one line",
        ),
        pytest.param(
            Decided(
                event="create",
                container=CONTAINER,
                decision=structs.replace(
                    DECISION,
                    changes=(
                        Change(container_id=ContainerId("c2"), before=Pinning(), after=PINNING),
                    ),
                ),
            ),
            [
                "INFO event=create pod=default/web container=nginx id=c1"
                ' request="0m of CPU" kind=shared pool="NUMA node #0" cpus=0-1 mems=0'
                ' decided_by=kept why="it ran there already" next_best=- updates=1',
                "DEBUG event=change id=c2 cpus=0-1 mems=0",
            ],
            id="changes of others are for debugging",
        ),
        pytest.param(
            Decided(
                event="create",
                container=CONTAINER,
                decision=Decision(container_id=ID, result=Refusal(reason="no room")),
                problems=(Problem(where="web", what="bad", fix="mend it"),),
            ),
            [
                "WARNING web: bad — mend it",
                "ERROR event=create pod=default/web container=nginx id=c1"
                ' request="0m of CPU" refused="no room"',
            ],
            id="problems and refusals stand out",
        ),
        pytest.param(
            Decided(
                event="create",
                container=CONTAINER,
                decision=Decision(
                    container_id=ID,
                    result=Refusal(reason="no room"),
                    problems=(Problem(where=STUCK, what="another one is there", fix="stop it"),),
                ),
            ),
            [
                "WARNING stuck: another one is there — stop it; at default/web/nginx",
                "ERROR event=create pod=default/web container=nginx id=c1"
                ' request="0m of CPU" refused="no room"',
            ],
            id="who is not alone on its own cpus is named",
        ),
        pytest.param(
            Unsupported("scheduling class 'fast': not here"),
            ["WARNING scheduling class 'fast': not here"],
            id="what the runtime cannot do",
        ),
        pytest.param(
            Released(CONTAINER, (Change(container_id=ID, before=Pinning(), after=PINNING),)),
            ["INFO event=release pod=default/web container=nginx id=c1 updates=1"],
            id="a release",
        ),
        pytest.param(
            Synchronized(3, 1), ["INFO event=synchronized containers=3 updates=1"], id="the start"
        ),
        pytest.param(
            Answered("CreateContainer", 0.15, Outcome.LATE),
            ["WARNING event=late method=CreateContainer milliseconds=150"],
            id="a late answer",
        ),
        pytest.param(
            Answered("StopContainer", 0.0015, Outcome.DONE),
            ["DEBUG method=StopContainer outcome=done microseconds=1500"],
            id="an answer in time is for debugging",
        ),
        pytest.param(
            SocketLost("/run/p/cri.sock"),
            ["WARNING /run/p/cri.sock: the kubelet's socket was gone, and is made anew"],
            id="the kubelet's socket was deleted",
        ),
        pytest.param(
            SocketLost("/run/p/cri.sock", "[Errno 30] Read-only file system"),
            [
                "ERROR /run/p/cri.sock: the kubelet's socket is gone, and cannot be made again:"
                " [Errno 30] Read-only file system — start pinfoldd anew; containers keep their"
                " cpus"
            ],
            id="the kubelet's socket was deleted for good",
        ),
        pytest.param(
            Updated((ID,), "no answer"),
            ['ERROR event=update-failed id=c1 error="no answer"'],
            id="a failed update",
        ),
    ],
)
def test_what_happens_is_a_line_of_keys_and_values(
    happening: Happening, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("test_daemon_log")
    with caplog.at_level(logging.DEBUG, log.name):
        DecisionLog(log, "nri.sock")(happening)
    assert [f"{one.levelname} {one.getMessage()}" for one in caplog.records] == lines


def test_a_lost_runtime_is_told_once_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("test_daemon_log")
    report = DecisionLog(log, "/run/nri.sock")
    with caplog.at_level(logging.INFO, log.name):
        for _ in range(3):
            report(Disconnected("cannot connect: Permission denied", 0.1))
    assert caplog.messages == [
        "/run/nri.sock: cannot connect: Permission denied — run pinfoldd as root"
    ]


def test_a_connection_that_is_not_tried_again_is_told_as_such(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report = DecisionLog(logging.getLogger("test_daemon_log"), "/run/nri.sock")
    report(Disconnected("containerd 1.7.24 does not tell what runs", None))
    assert caplog.messages == [
        "/run/nri.sock: containerd 1.7.24 does not tell what runs — pinfoldd ends; containers that"
        " run keep their cpus"
    ]


def test_a_problem_of_a_pod_is_told_once_however_many_containers_it_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("test_daemon_log")
    report = DecisionLog(log, "nri.sock")
    unknown = Problem(where="x of default/web", what="unknown annotation 'x'")
    with caplog.at_level(logging.WARNING, log.name):
        for pod, name in (("p1", "nginx"), ("p1", "helper"), ("p2", "nginx")):
            container = Container(
                id=ContainerId(name), name=name, pod=Pod(id=PodId(pod), name="web")
            )
            own = Problem(where=f"y of default/web/{name}", what="bad")
            report(
                Decided(
                    event="create", container=container, decision=DECISION, problems=(unknown, own)
                )
            )
    first = ["x of default/web: unknown annotation 'x'", "y of default/web/nginx: bad"]
    assert caplog.messages == [*first, "y of default/web/helper: bad", *first]


def test_faults_come_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("test_daemon_log")
    try:
        raise ZeroDivisionError("ours")
    except ZeroDivisionError as error:
        DecisionLog(log, "nri.sock")(Crashed("CreateContainer", error))
    [record] = caplog.records
    assert "during=CreateContainer" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_values_are_quoted_where_they_would_split() -> None:
    assert fields(a="x y", b='"', c="", d="1-2,4", e="a=b") == (
        'a="x y" b="\\"" c="" d=1-2,4 e="a=b"'
    )


def logged(caplog: pytest.LogCaptureFixture, happening: Happening) -> str:
    log = logging.getLogger("test_daemon_log")
    with caplog.at_level(logging.INFO, log.name):
        DecisionLog(log, "nri.sock")(happening)
    return caplog.messages[-1]


def test_the_line_of_the_manual_is_what_a_choice_is_logged_as(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine(machine_from_spec("socket:2 numa:2 core:2 thread:2 mem:2G"), Config())
    pod = Pod(id=PodId("p1"), name="web", qos=QosClass.GUARANTEED)
    resources = Resources(cpu_request_milli=2000, cpu_limit_milli=2000)
    container = Container(id=ID, name="nginx", pod=pod, resources=resources)
    decision = engine.create(container)
    line = logged(caplog, Decided(event="create", container=container, decision=decision))
    manual = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()
    assert f"```text\n{line}\n```" in manual


HOSTILE = (
    'x" refused="no\nevent=create pod=a/b\x85event=create\u2028\x9b31m\u202e\ud800\x00\U000e0001'
)


@pytest.mark.parametrize(
    "happening",
    [
        pytest.param(
            Decided(
                event="create",
                container=structs.replace(CONTAINER, name=HOSTILE),
                decision=DECISION,
            ),
            id="a name",
        ),
        pytest.param(
            Decided(
                event="create",
                container=CONTAINER,
                decision=Decision(container_id=ID, result=Refusal(reason=HOSTILE)),
            ),
            id="a reason",
        ),
        pytest.param(Unsupported(HOSTILE), id="what a runtime cannot do"),
        pytest.param(Disconnected(HOSTILE, 1.0), id="a reason of the runtime"),
        pytest.param(
            Decided(
                event="create",
                container=CONTAINER,
                decision=structs.replace(DECISION, problems=(Problem(where="x", what=HOSTILE),)),
            ),
            id="a problem",
        ),
    ],
)
def test_what_strangers_wrote_stays_inside_one_line(
    happening: Happening, caplog: pytest.LogCaptureFixture
) -> None:
    logged(caplog, happening)
    for line in caplog.messages:
        assert line.isprintable()
        assert len(line.splitlines()) == 1
        line.encode()


def test_a_quoted_value_reads_back_as_it_was() -> None:
    assert json.loads(fields(name=HOSTILE).removeprefix("name=")) == HOSTILE


def test_a_broken_rule_of_another_container_is_told_with_whom_it_was_seen_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = "anti-affinity at numa to app=db of shop/db-0/db: in one NUMA node with shop/db-0/db"
    decision = with_unmet(DECISION, (text,))
    logged(caplog, Decided(event="create", container=CONTAINER, decision=decision))
    assert caplog.messages[0] == f"unmet: {text}; at {CONTAINER.path}"


@pytest.mark.parametrize("text", ["x" * 5000, "x y" * 5000, "\n" * 5000])
def test_long_values_lose_their_middle(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(fields(name=text)) <= 6100
    assert len(logged(caplog, Unsupported(text))) <= 6100
    value = fields(name=text).removeprefix("name=")
    assert (json.loads(value) if value.startswith('"') else value) == f"{text[:599]}…{text[-400:]}"


def test_every_line_of_a_record_carries_its_level_for_the_journal() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "text", (), sys.exc_info())
    text = MarkedFormatter().format(record)
    assert text.splitlines()[0] == "<3>text"
    assert all(line.startswith("<3>") for line in text.splitlines())


def test_runtime_that_hands_over_a_closed_file_is_an_error() -> None:
    with pytest.raises(RuntimeOptionError, match="NRI_PLUGIN_SOCKET: '987' is no open file"):
        find_runtime("auto", "", "pinfold", "90", {"NRI_PLUGIN_SOCKET": "987"})

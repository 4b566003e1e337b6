"""The ten questions of an operator are answered on a node of forty pods that come and go.

The machine is emulated, so the times are told and not judged. It takes minutes. With
`PINFOLD_E2E_GUIDE=docs/operating.md` the guide gets the answers as they came.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.e2e.guest.questions import LATE, QUESTIONS, manifest_text
from tests.e2e.transcripts import refreshed, transcripts

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.vm,
    pytest.mark.skipif(
        "PINFOLD_E2E_WHOLE" not in os.environ,
        reason="forty pods take minutes in an emulated machine: PINFOLD_E2E_WHOLE=1 make e2e-vm",
    ),
]

GUIDE = "PINFOLD_E2E_GUIDE"
"""Names the guide in which the answers replace those of before."""
PODS = 40
TURNOVERS = 5
"""In the minutes that the questions take where the host is busy with other work, too."""


class Asked(Protocol):
    """What the guest's script wrote down."""

    @property
    def answers(self) -> Mapping[str, Any]: ...

    @property
    def bundle(self) -> Path: ...


def times(answers: Mapping[str, Any]) -> str:
    """The times that were taken, for people."""
    names = {
        "python_seconds": "python -c pass",
        "command_seconds": "pinfold explain",
        "answer_seconds": "the question alone, of a program that runs",
    }
    return "\n".join(
        f"{words}: p50 {statistics.median(answers[name]):.2f} s, "
        f"p90 {statistics.quantiles(answers[name], n=10)[-1]:.2f} s, "
        f"max {max(answers[name]):.2f} s of {len(answers[name])}"
        for name, words in names.items()
    )


@pytest.fixture(name="answers", scope="module")
def fixture_answers(
    asked_guest: Asked, tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]
) -> Mapping[str, Any]:
    """The answers; a file has them as they came."""
    path = tmp_path_factory.mktemp("questions") / "transcripts.md"
    path.write_text(transcripts(asked_guest.answers))
    if GUIDE in os.environ:
        guide = Path(os.environ[GUIDE])
        guide.write_text(refreshed(guide.read_text(), asked_guest.answers))
    say(f"on {asked_guest.answers['cpu']}, emulated:\n{times(asked_guest.answers)}\n{path}")
    return asked_guest.answers


def test_forty_pods_came_and_went_meanwhile(answers: Mapping[str, Any]) -> None:
    assert answers["pods"] >= PODS
    assert answers["turnovers"] >= TURNOVERS
    assert answers["churn_failures"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Where is it?", ["default/shop-2/db", "default/shop-2/web"]),
        ("Why is it there?", ["because: ", "rule: its own", "rank  pool"]),
        ("What if this pod came?", ["late/own", "later/job", "last/idle"]),
        ("Why was it refused?", ["was refused", "exclusive CPUs: wanted 9"]),
        ("Why is it slow?", ["throttled", "slow"]),
        (
            "Is it really pinned?",
            ["drift: 0", "threads bound to fewer cpus than their container has: 0"],
        ),
        ("What changed?", ["for it moved", "event="]),
        ("How full is the node?", ["die #1/1", "root", "connected"]),
        ("How fragmented is it?", ["pinfold_fragmentation_ratio", "satisfied weight"]),
        ("Is it healthy?", ["connected", "ok"]),
    ],
)
def test_a_question_is_answered(
    answers: Mapping[str, Any], words: str, said: Sequence[str]
) -> None:
    (question,) = (one for one in answers["questions"] if one["words"] == words)
    output = "".join(one["output"] for one in question["answers"])
    assert [one for one in said if one not in output] == [], output
    assert [one for one in question["answers"] if one["status"] != 0] == []


def test_whoever_moved_is_named(answers: Mapping[str, Any]) -> None:
    (question,) = (one for one in answers["questions"] if one["words"] == "What changed?")
    output = "".join(one["output"] for one in question["answers"])
    assert re.findall(r"for it moved [0-9a-f]{64} .*", output) == []


def test_every_question_has_been_asked(answers: Mapping[str, Any]) -> None:
    assert [one["words"] for one in answers["questions"]] == [one.words for one in QUESTIONS]


def test_a_simulation_on_the_captured_node_gives_the_nodes_own_decisions(
    asked_guest: Asked, tmp_path: Path
) -> None:
    manifests = tmp_path / "late.yaml"
    manifests.write_text(manifest_text())
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pinfold.cmd.pinfold", "simulate", manifests),
            *("--state", asked_guest.bundle, "-o", "json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    foretold = json.loads(run.stdout)["scenarios"][0]["containers"]
    known = {one["container"]: one for one in asked_guest.answers["status"]["containers"]}
    for pod in LATE:
        for spec in pod.containers:
            (one,) = (
                value
                for name, value in foretold.items()
                if (value["pod"], name.rpartition("/")[2]) == (pod.name, spec.name)
            )
            node = known[f"default/{pod.name}/{spec.name}"]
            assert (one["cpus"], one["mems"], one["pool"], one["decided_by"]) == (
                node["intended"]["cpus"],
                node["intended"]["mems"],
                node["pool"],
                node["decided_by"],
            )

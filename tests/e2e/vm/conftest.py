"""Runs of the emulated machine, whose observations the tests of this folder judge."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.guest.questions import ANSWER_FILE, BUNDLE_FILE
from tests.e2e.pins import Pins
from tests.e2e.vm.guest_run import fail_with_logs, run_in_guest

FLOCK_WITHIN_SECONDS: Final = 300
QUESTIONS_WITHIN_SECONDS: Final = 2400


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """The pins of each running container, after each step of the guest's script.

    `topology` is what `pinfold topology -o json` said there, and `audit` what `pinfold audit` said
    once a thread was bound; `status` is what a daemon in a pod told; `refusals` is what the runtime
    said of pods that it did not start, and `log` what the daemon did.
    """

    topology: Mapping[str, object]
    audit: Mapping[str, Any]
    status: Mapping[str, Any]
    log: str
    refusals: Mapping[str, str]
    steps: Mapping[str, Mapping[str, Pins]]

    def __getitem__(self, step: str) -> Mapping[str, Pins]:
        return self.steps[step]


@dataclass(frozen=True, slots=True)
class AskedGuest:
    """What the guest's forty pods and its daemon were asked: the answers, and a bundle of it."""

    answers: Mapping[str, Any]
    bundle: Path


@pytest.fixture(scope="session")
def observations(
    tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]
) -> Observations:
    """What was seen of the flock."""
    folder = tmp_path_factory.mktemp("vm")
    results = run_in_guest("flock", FLOCK_WITHIN_SECONDS, folder, say)
    written = json.loads(results["observations.json"])
    if written["failure"] is not None:
        fail_with_logs(results)
    return Observations(
        topology=json.loads(results["topology.json"]),
        audit=json.loads(results["audit.json"]),
        status=json.loads(results["status.json"]),
        log=results["pinfoldd.log"].decode(),
        refusals=written["refusals"],
        steps={
            step: {name: Pins(**pins) for name, pins in containers.items()}
            for step, containers in written["steps"].items()
        },
    )


@pytest.fixture(scope="session")
def asked_guest(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> AskedGuest:
    """What was answered there."""
    folder = tmp_path_factory.mktemp("vm-questions")
    results = run_in_guest("questions", QUESTIONS_WITHIN_SECONDS, folder, say)
    answers = json.loads(results[ANSWER_FILE])
    if answers["failure"] is not None:
        fail_with_logs(results)
    bundle = folder / BUNDLE_FILE
    bundle.write_bytes(results[BUNDLE_FILE])
    return AskedGuest(answers, bundle)

"""Real machines: every dump of the shared corpus is read as its truth file says."""

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pinfold.topology.drawing.machine_json import machine_document
from pinfold.topology.sysfs.discovery import discover, read_machine
from tests.unit.topology.made.machine_files import machine_snapshot, tree_of

CORPUS = Path(__file__).parents[5] / "shared" / "corpus"
DUMPS = sorted((CORPUS / "given").glob("*.tar.xz"))

pytestmark = pytest.mark.skipif(not DUMPS, reason=f"no corpus of dumps in {CORPUS}")


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus_check", CORPUS / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name.removesuffix(".tar.xz"))
def test_a_real_machine_is_read_as_the_truth_says(dump: Path, check: ModuleType) -> None:
    machine = read_machine(str(dump))
    truth = json.loads(Path(str(dump).removesuffix(".tar.xz") + ".json").read_text())
    document = machine_document(machine)
    options = argparse.Namespace(sets_only=False, no_memory=False, cur=truth)
    for field in check.FIELDS:
        if truth[field] is not None:
            wrong = check.compare(field, truth[field], document[field], truth["flags"], options)
            assert not wrong, f"{field}: {wrong}"
    found = discover(tree_of(machine_snapshot(machine)))
    for name in vars(machine):
        if name != "warnings":
            assert getattr(found, name) == getattr(machine, name), name


@pytest.mark.slow
def test_the_corpus_check_passes_for_the_command() -> None:
    tool = f"{sys.executable} -m pinfold.cmd.pinfold topology --sysfs-root {{root}} -o json"
    done = subprocess.run(
        [sys.executable, str(CORPUS / "check.py"), tool], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == f"{len(DUMPS)} passed, 0 failed"

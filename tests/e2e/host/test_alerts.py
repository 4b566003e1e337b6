"""The alert rules, read by Prometheus' own checker."""

import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.e2e import cache, debian
from tests.e2e.runtime import STABLE_SUITE

pytestmark = pytest.mark.e2e

ALERTS: Final = Path(__file__).parents[3] / "configs/prometheus/pinfold-alerts.yaml"


def promtool() -> Path:
    """The checker, out of Debian's package; skips where that cannot be had."""
    if reason := debian.missing():
        pytest.skip(reason)
    try:
        folder = cache.kept("prometheus", cache.digest(STABLE_SUITE), unpack)
    except debian.DebianError as error:
        pytest.skip(f"prometheus of {STABLE_SUITE}: {error}")
    return folder / "usr/bin/promtool"


def unpack(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="pinfold-e2e-apt-") as scratch:
        debian.Suite(STABLE_SUITE, Path(scratch)).unpack(["prometheus"], folder)


def test_prometheus_accepts_the_alerts() -> None:
    checked = subprocess.run(
        [promtool(), "check", "rules", ALERTS],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr
    assert "rules found" in checked.stdout


def test_prometheus_refuses_an_alert_with_a_fault(tmp_path: Path) -> None:
    faulty = tmp_path / "alerts.yaml"
    faulty.write_text(ALERTS.read_text().replace("expr: ", "expr: sum by (", 1))
    checked = subprocess.run([promtool(), "check", "rules", faulty], check=False, timeout=60)
    assert checked.returncode != 0

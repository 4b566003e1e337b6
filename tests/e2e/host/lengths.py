"""Lengths of the tests that try their luck again and again, by the interface that is tested.

Through NRI they are whole each time. Through the CRI proxy, which three releases of containerd
are tested with, they are short unless `PINFOLD_E2E_WHOLE` is set, as `make e2e-cri` does.
"""

import os
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Rounds of parallel starts, rounds with a kill in each, and seconds of callers."""

    rounds: int
    kills: int
    callers_seconds: float


WHOLE: Final = Lengths(rounds=25, kills=7, callers_seconds=180.0)
SHORT: Final = Lengths(rounds=5, kills=2, callers_seconds=20.0)


def lengths_of(interface: str) -> Lengths:
    """The lengths for `nri` or `cri` in this run."""
    return WHOLE if interface == "nri" or os.environ.get("PINFOLD_E2E_WHOLE") else SHORT

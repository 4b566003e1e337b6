"""Runs in the guest the script that the payload names, a module of this folder."""

import importlib
from pathlib import Path
from typing import Final

SCRIPT_FILE: Final = "script"
"""In the payload beside the code, where the agent starts this."""


def main() -> None:
    """Runs the script's `main`, which has the folder for results as its argument."""
    name = Path(SCRIPT_FILE).read_text()
    importlib.import_module(f"tests.e2e.guest.{name}").main()


if __name__ == "__main__":
    main()

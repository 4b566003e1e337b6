"""`pinfoldd` with more time for its answers: on a busy machine a good one may come late."""

from importlib import import_module
from typing import Final

from pinfold.cmd.pinfoldd import main
from pinfold.nri.plugin.plugin import Timing

_SECONDS: Final = {
    "pinfold.nri.plugin.service": {"FIND_SECONDS": 5.0, "_FINDING": 0.9},
    "pinfold.nri.hints.hint_probe": {"_PATIENCE_SECONDS": 5.0},
}

if __name__ == "__main__":
    defaults = Timing.__init__.__kwdefaults__
    assert defaults is not None
    assert "deadline_seconds" in defaults
    defaults["deadline_seconds"] = 10.0
    for module, values in _SECONDS.items():
        for name, value in values.items():
            assert hasattr(import_module(module), name)
            setattr(import_module(module), name, value)
    main()

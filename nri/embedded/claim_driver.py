"""A driver of claimed cpus: it says in a CDI file what its device brings to a container.

Source: the Container Device Interface specification, 1.0, and Kubernetes' dynamic resource
allocation, whose kubelet hands the names of such devices to the runtime.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_KIND: Final = "pinfold.dev/claim"


class ClaimDriver:
    """A driver that writes below one folder, which it makes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def device(self, name: str, environment: Sequence[str]) -> str:
        """The full name of a device by which a container gets these variables."""
        spec = {
            "cdiVersion": "0.6.0",
            "kind": _KIND,
            "devices": [{"name": name, "containerEdits": {"env": [*environment]}}],
        }
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{name}.json").write_text(json.dumps(spec))
        return f"{_KIND}={name}"

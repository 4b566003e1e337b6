"""The kubelet's own managers on this node, by the state files that they keep.

One whose policy is none writes its file, too, and sets nothing. Source:
pkg/kubelet/cm/cpumanager/state, memorymanager/state.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from ...policy.model.cpuset_conflicts import (
    CPU_STATE,
    KUBELET_FOLDER,
    MEMORY_STATE,
    KubeletManagers,
)

_FOLDER: Final = Path(KUBELET_FOLDER)
_STATE_BYTES_MAX: Final = 4 << 20


def read_managers(folder: Path = _FOLDER) -> KubeletManagers:
    """The kubelet's managers by the files in its folder. Never raises."""
    return KubeletManagers.of(_policy(folder / CPU_STATE), _policy(folder / MEMORY_STATE))


def _policy(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_STATE_BYTES_MAX)
        state: object = json.loads(content)
    except (OSError, ValueError):
        # Not here, or not to be read, or half written: a kubelet that cannot read it stops itself.
        return ""
    if not isinstance(state, Mapping):
        return ""
    policy = cast("Mapping[str, object]", state).get("policyName")
    return policy if isinstance(policy, str) else ""

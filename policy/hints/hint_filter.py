"""Mounts and devices that are worth a hint, and the hints of a container that count."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ...topology.model.machine import Machine
from ..annotations.annotation_values import HintSource, PathFilter, steps_per_character
from ..annotations.preferences import Preferences
from ..model.container import Container, Device, Mount
from ..model.hint import Hint, HintOrigin
from ..text.errors import Problem
from .hint_place import resolve

STEPS_MAX: Final = 50_000
"""Of holding the hints of one container against its globs, a character at a time."""

_SOURCES: Final[Mapping[HintOrigin, HintSource]] = {
    HintOrigin.MOUNT: HintSource.MOUNTS,
    HintOrigin.DEVICE: HintSource.DEVICES,
    HintOrigin.POD_RESOURCES: HintSource.POD_RESOURCES,
    HintOrigin.CLAIM: HintSource.DEVICES,
}
_KUBELET_PROVIDER: Final = "podresourceapi:"
"""What the provider of a hint from the kubelet begins with; the resource follows."""

# Small files and libraries, where their disk does not matter, and memory, which has none.
_SKIPPED: Final = (
    "/.nri-resource-policy",
    "/dev/shm",
    "/dev/termination-log",
    "/etc/",
    "/lib/",
    "/lib64/",
    "/usr/lib/",
    "/usr/lib32/",
    "/usr/lib64/",
)
# The kubelet's folder may have any name. The first four kinds are small files again; the others
# are far away, and looking at one of them can take for ever when its server is gone.
_SKIPPED_VOLUME: Final = re.compile(
    r"/pods/[^/]+/volumes/kubernetes\.io~"
    r"(configmap|secret|projected|downward-api|nfs|cephfs|glusterfs|azure-file)/"
)


def is_worth_a_look(mount: Mount) -> bool:
    """Whether a mount can tell where its container should be: writable, and of some weight."""
    # tmpfs, proc, cgroup: what has no path has no device.
    if mount.is_read_only or not mount.source.startswith("/"):
        return False
    paths = (mount.source, mount.destination)
    return not any(path.startswith(_SKIPPED) or _SKIPPED_VOLUME.search(path) for path in paths)


def is_used(device: Device) -> bool:
    """Whether a device can tell where its container should be."""
    # No hardware has the major number 0.
    return device.is_writable and device.major > 0 and device.type in ("b", "c", "u")


def hints_of(
    container: Container, preferences: Preferences, machine: Machine
) -> tuple[tuple[Hint, ...], tuple[Problem, ...]]:
    """The hints of a container that count, resolved, in the order found, and what is odd in them.

    A folder of sysfs counts once, however many devices lead to it; of the kubelet's devices each
    counts by itself. Every hint returned has cpus.
    """
    if not container.hints:
        return (), ()
    hints: list[Hint] = []
    problems: list[Problem] = []
    steps = _steps(container.hints, preferences)
    if steps > STEPS_MAX:
        what = f"allow and deny of topologyhints are left out: they take {steps} steps to look up"
        fix = f"write fewer or shorter paths: at most {STEPS_MAX} steps"
        problems.append(Problem(where=f"topologyhints of {container.path}", what=what, fix=fix))
        preferences = replace(preferences, hint_allow=None, hint_deny=None)
    seen: set[str] = set()
    for hint in container.hints:
        if not is_wanted(hint, preferences) or hint.provider in seen:
            continue
        if hint.origin is not HintOrigin.POD_RESOURCES:
            seen.add(hint.provider)
        where = f"topology hint {hint.provider} of {container.path}"
        resolved, found = resolve(hint, machine, where)
        problems.extend(found)
        if resolved is not None:
            hints.append(resolved)
    return tuple(hints), tuple(dict.fromkeys(problems))


def _steps(hints: Sequence[Hint], preferences: Preferences) -> int:
    """How much it costs to hold all hints against the paths that a container names."""
    filters = [one for one in (preferences.hint_allow, preferences.hint_deny) if one is not None]
    if not filters:
        return 0
    characters = sum(len(hint.path) + len(hint.device or hint.provider) for hint in hints)
    # The beginning of a path is compared at once, a glob character by character.
    return sum(
        characters * sum(map(steps_per_character, one.paths))
        if one.is_glob
        else 2 * len(hints) * len(one.paths)
        for one in filters
    )


def is_wanted(hint: Hint, preferences: Preferences) -> bool:
    """Whether a container wants hints of this origin, and this one is not denied.

    Each path is judged by itself, as the Go policy does: the mounted path, the device and, for
    other hints, the provider. A path that is denied may be allowed again; allowing alone does
    nothing.
    """
    wanted = preferences.near_device
    if wanted is not None:
        # Near this one: no other device or volume competes with it.
        names = (wanted, _KUBELET_PROVIDER + wanted)
        return hint.path == wanted or hint.provider in names
    source = _SOURCES.get(hint.origin)
    if source is not None and source not in preferences.hint_sources:
        return False
    paths = (hint.path, hint.device or hint.provider)
    return not any(
        _matches(preferences.hint_deny, path) and not _matches(preferences.hint_allow, path)
        for path in paths
        if path
    )


def _matches(paths: PathFilter | None, path: str) -> bool:
    return paths is not None and paths.matches(path)

"""Runtimes by name and version: which NRI is in them, and what that means for a plugin.

Source: the tags of containerd and CRI-O and the NRI version each one builds with. From NRI 0.12 on
a runtime tells its NRI version itself.
"""

import re
from typing import Final, NamedTuple

from msgspec import Struct

CONTAINERD: Final = "containerd"
CRIO: Final = "cri-o"


class Version(NamedTuple):
    """Three numbers, as of a release or of the release that a preview leads to."""

    major: int
    minor: int
    patch: int = 0


OUR_NRI_VERSION: Final = "v0.12.2"
"""The newest NRI whose messages we read and write as it does."""

_NRI_OF_RUNTIMES: Final[dict[str, tuple[tuple[Version, Version], ...]]] = {
    CONTAINERD: (
        (Version(2, 4, 0), Version(0, 12, 1)),
        (Version(2, 3, 0), Version(0, 12, 0)),
        (Version(2, 2, 1), Version(0, 11, 0)),
        (Version(2, 2, 0), Version(0, 10, 0)),
        (Version(2, 0, 0), Version(0, 8, 0)),
        (Version(1, 7, 26), Version(0, 8, 0)),
        (Version(1, 7, 0), Version(0, 6, 1)),
    ),
    CRIO: (
        (Version(1, 37, 0), Version(0, 12, 0)),
        (Version(1, 35, 0), Version(0, 11, 0)),
        (Version(1, 34, 0), Version(0, 10, 0)),
        (Version(1, 32, 0), Version(0, 9, 0)),
        (Version(1, 31, 0), Version(0, 6, 1)),
        (Version(1, 30, 0), Version(0, 6, 0)),
    ),
}
"""Since which release of a runtime which NRI is in it, newest first."""

_OLDEST: Final = Version(0, 6, 0)
_NEVER: Final = Version(9999, 9999)
_SCHEDULER_SINCE: Final = Version(0, 11, 0)
_MEMORY_POLICY_SINCE: Final = Version(0, 12, 0)
_SAFE_UPDATES_SINCE: Final = Version(0, 12, 1)
_CHUNKS_SINCE: Final = Version(0, 8, 0)
_POD_UPDATES_SINCE: Final = {CONTAINERD: Version(2, 3, 0), CRIO: Version(1, 33, 0)}
"""Older ones end the connection of a plugin that wants them, or never tell."""
_PREINSTALLED_CONTAINERD_SINCE: Final = Version(2, 0, 0)

_NUMBERS: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?")


class RuntimeAbilities(Struct, frozen=True, kw_only=True):
    """Abilities and habits of a runtime, as far as runtimes differ."""

    nri: Version
    """The version of its NRI; the oldest one of its kind where nobody knows."""
    can_schedule: bool
    """It sets the scheduling policy of a new container; others drop it without a word."""
    has_memory_policy: bool
    """It sets the memory policy of a new container, where its OCI runtime can."""
    has_safe_updates: bool
    """Updates that it did not ask for cannot make it hang (containerd/nri pull request 301)."""
    updates_pods: bool
    """It tells of a pod's new size before it is resized, and heeds a refusal."""
    synchronizes_preinstalled: bool
    """It tells plugins that it started itself what runs already."""


def abilities(runtime: str, version: str, nri_version: str) -> RuntimeAbilities:
    """Abilities of a runtime by the name and versions it told; `nri_version` may be empty.

    A beta counts as the release it leads to.

    >>> abilities("containerd", "1.7.24~ds1", "").nri
    Version(major=0, minor=6, patch=1)
    >>> abilities("containerd", "v2.2.0", "").can_schedule
    False
    """
    name = runtime.strip().lower()
    known = parse_version(version)
    nri = parse_version(nri_version) or _nri_of(name, known)
    preinstalled = nri >= _CHUNKS_SINCE
    if name == CONTAINERD and known is not None:
        preinstalled = known >= _PREINSTALLED_CONTAINERD_SINCE
    return RuntimeAbilities(
        nri=nri,
        can_schedule=nri >= _SCHEDULER_SINCE,
        has_memory_policy=nri >= _MEMORY_POLICY_SINCE,
        has_safe_updates=nri >= _SAFE_UPDATES_SINCE,
        updates_pods=known is not None and known >= _POD_UPDATES_SINCE.get(name, _NEVER),
        synchronizes_preinstalled=preinstalled,
    )


def parse_version(text: str) -> Version | None:
    """The numbers a version begins with; None where it does not.

    >>> parse_version("v2.4.0-beta.0-12-gabc")
    Version(major=2, minor=4, patch=0)
    """
    found = _NUMBERS.match(text.strip())
    if found is None:
        return None
    major, minor, patch = found.groups(default="0")
    return Version(int(major), int(minor), int(patch))


def _nri_of(runtime: str, version: Version | None) -> Version:
    for since, nri in _NRI_OF_RUNTIMES.get(runtime, ()):
        if version is not None and version >= since:
            return nri
    return _OLDEST

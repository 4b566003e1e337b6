"""Which NRI is in which runtime, and what a runtime can by that."""

import pytest

from pinfold.nri.plugin.runtime_versions import Version, abilities, parse_version


@pytest.mark.parametrize(
    ("runtime", "version", "nri_version", "expected"),
    [
        pytest.param("containerd", "1.7.24~ds1", "", (0, 6, 1), id="Debian's containerd 1.7"),
        pytest.param("containerd", "1.7.26", "", (0, 8, 0), id="a later containerd 1.7"),
        pytest.param("containerd", "v2.1.9", "", (0, 8, 0), id="containerd 2.1"),
        pytest.param("containerd", "v2.2.0", "", (0, 10, 0), id="containerd 2.2.0"),
        pytest.param("containerd", "v2.2.1", "", (0, 11, 0), id="containerd 2.2.1"),
        pytest.param("containerd", "v2.3.4", "v0.12.0", (0, 12, 0), id="containerd 2.3"),
        pytest.param("containerd", "v2.4.0-beta.0", "", (0, 12, 1), id="a beta of containerd 2.4"),
        pytest.param("containerd", "v2.10.0-rc.1", "", (0, 12, 1), id="containerd 2.10 is newer"),
        pytest.param("containerd", "2.1.9", "v0.12.2", (0, 12, 2), id="what it tells counts"),
        pytest.param("containerd", "", "", (0, 6, 0), id="one that is not told is the oldest"),
        pytest.param("containerd", "main", "", (0, 6, 0), id="and so is one without numbers"),
        pytest.param("cri-o", "1.31.2", "", (0, 6, 1), id="CRI-O 1.31"),
        pytest.param("cri-o", "1.34.0", "", (0, 10, 0), id="CRI-O 1.34"),
        pytest.param("cri-o", "1.36.3", "", (0, 11, 0), id="CRI-O 1.36 tells no NRI version"),
        pytest.param("cri-o", "1.37.0", "", (0, 12, 0), id="CRI-O 1.37"),
        pytest.param("other", "9.9.9", "", (0, 6, 0), id="a runtime nobody knows is the oldest"),
    ],
)
def test_the_nri_version_follows_from_the_runtime(
    runtime: str, version: str, nri_version: str, expected: tuple[int, int, int]
) -> None:
    assert abilities(runtime, version, nri_version).nri == Version(*expected)


@pytest.mark.parametrize(
    ("runtime", "version", "nri_version", "expected"),
    [
        pytest.param("containerd", "v2.1.9", "", False, id="containerd 2.1 does not know them"),
        pytest.param("containerd", "v2.2.0", "", False, id="containerd 2.2.0 drops them"),
        pytest.param("containerd", "v2.2.1", "", True, id="containerd 2.2.1 is the first"),
        pytest.param("cri-o", "1.34.9", "", False, id="CRI-O 1.34 does not"),
        pytest.param("cri-o", "1.35.0", "", True, id="CRI-O 1.35 does"),
        pytest.param("other", "1.0.0", "v0.11.0", True, id="a runtime that tells NRI's version"),
    ],
)
def test_runtimes_that_set_schedulers(
    runtime: str, version: str, nri_version: str, *, expected: bool
) -> None:
    assert abilities(runtime, version, nri_version).can_schedule is expected


@pytest.mark.parametrize(
    ("runtime", "version", "nri_version", "expected"),
    [
        pytest.param("containerd", "1.7.24", "", False, id="containerd 1.7 may hang"),
        pytest.param("containerd", "v2.3.4", "v0.12.0", False, id="containerd 2.3 may hang"),
        pytest.param("containerd", "v2.4.0", "v0.12.1", True, id="containerd 2.4 does not"),
        pytest.param("cri-o", "1.37.0", "v0.12.0", False, id="CRI-O 1.37 may hang"),
        pytest.param("containerd", "v2.4.0-beta.0", "v0.12.2", True, id="a beta that tells NRI"),
        pytest.param("containerd", "v2.4.0-alpha.0", "", False, id="an alpha that tells nothing"),
        pytest.param("containerd", "v2.4.0", "", False, id="a release that tells nothing"),
        pytest.param("containerd", "v2.3.4", "v0.12.1-rc.0", False, id="a candidate of NRI 0.12.1"),
        pytest.param(
            "cri-o",
            "1.37.0",
            "v0.12.1-0.20260501101010-abcdefabcdef",
            False,
            id="a commit before NRI 0.12.1",
        ),
        pytest.param(
            "cri-o",
            "1.37.0",
            "v0.12.2-0.20260801101010-abcdefabcdef",
            True,
            id="a commit after NRI 0.12.1",
        ),
        pytest.param("cri-o", "1.38.0", "v0.12.1+build", True, id="a build of the release itself"),
    ],
)
def test_runtimes_that_cannot_hang_over_our_updates(
    runtime: str, version: str, nri_version: str, *, expected: bool
) -> None:
    assert abilities(runtime, version, nri_version).has_safe_updates is expected


@pytest.mark.parametrize(
    ("runtime", "version", "expected"),
    [
        pytest.param("containerd", "1.7.34", False, id="containerd 1.7 never"),
        pytest.param("containerd", "2.1.9+unknown", True, id="containerd 2.1 does"),
        pytest.param("cri-o", "1.31.0", False, id="a CRI-O with an old NRI"),
        pytest.param("cri-o", "1.33.0", True, id="a CRI-O with a newer NRI"),
    ],
)
def test_runtimes_that_tell_preinstalled_plugins_what_runs(
    runtime: str, version: str, *, expected: bool
) -> None:
    assert abilities(runtime, version, "").synchronizes_preinstalled is expected


@pytest.mark.parametrize("text", ["", "v", "1", "x1.2.3", "99999.1.1"])
def test_texts_that_are_no_version(text: str) -> None:
    assert parse_version(text) is None

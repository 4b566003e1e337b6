"""Promises to those who share cpus: whether all of them fit, however they overlap."""

from collections.abc import Mapping

import pytest

from pinfold.policy.books.promises import has_room
from pinfold.topology.sets.cpuset import CpuSet

CASES = [
    pytest.param({"0-1": 2000, "0-3": 2000}, True, id="a set inside another one"),
    pytest.param({"0-1": 2000, "0-3": 2001}, False, id="too much in both"),
    pytest.param({"0-1": 1000, "1-2": 1500, "2": 500}, True, id="who can moves on"),
    pytest.param({"0": 1000, "0-1": 500, "1-2": 1500, "2": 400}, False, id="nobody can"),
    pytest.param({"0-3": 4000, "0": 0}, True, id="who asks for nothing"),
    pytest.param({"0-1": 1500, "1-2": 1500, "0,2": 0}, True, id="parts of one cpu"),
    pytest.param({"0-1": 1100, "1-2": 1100, "0,2": 900}, False, id="three in a ring"),
    pytest.param({}, True, id="nobody"),
]


@pytest.mark.parametrize(("wanted", "fits"), CASES)
def test_shares_fit_where_each_finds_its_part(wanted: Mapping[str, int], *, fits: bool) -> None:
    assert has_room({CpuSet.parse(cpus).mask: milli for cpus, milli in wanted.items()}) is fits

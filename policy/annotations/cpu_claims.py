"""Cpus that a container has by a claim of dynamic resource allocation, read from its environment.

Source: dra-driver-cpu, which writes `DRA_CPUSET_<uid of the claim>=<cpus>` for every claim.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ...topology.sets.cpuset import NO_CPUS, CpuSet, IdListError
from ..text.errors import Problem

CLAIM_PREFIX: Final = "DRA_CPUSET_"
_CLAIMS_MAX: Final = 64
"""A container has a few; what a stranger writes beyond that is not read."""


def claimed_cpus(environment: Iterable[str], where: str) -> tuple[CpuSet | None, list[Problem]]:
    """The cpus of all claims of a container, None without any, and what cannot be read.

    >>> claimed_cpus(["PATH=/bin", "DRA_CPUSET_4f1=2-3", "DRA_CPUSET_9aa=8"], "")[0]
    CpuSet.parse('2-3,8')
    """
    claims = [one for one in environment if one.startswith(CLAIM_PREFIX)]
    if not claims:
        return None, []
    cpus, problems = NO_CPUS, list[Problem]()
    for one in islice(claims, _CLAIMS_MAX):
        name, _, text = one.partition("=")
        try:
            cpus |= CpuSet.parse(text)
        except IdListError as error:
            problems.append(Problem(where=f"{name} of {where}", what=str(error)))
    return cpus, problems

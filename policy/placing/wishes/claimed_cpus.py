"""Cpus that others than the policy gave to a container: they are taken, and nobody else's.

The container is left alone. What is booked never takes the last cpus owed to shared containers: the
environment that tells of a claim is written by whoever may create pods.
"""

from ....topology.sets.cpuset import CpuSet
from ...model.container import Container
from ...model.grant import Grant
from ...model.request import Request
from ...text.errors import Problem


def claimed_part(request: Request, sharable: int, count: int, isolated: int) -> CpuSet:
    """The cpus of a claim that can be booked for its container; all of it as a rule.

    Masks of what is free: `count` of the sharable cpus may be taken, and all isolated ones.
    """
    if not request.claimed:
        return CpuSet()
    cpus = request.claimed.mask & (sharable | isolated)
    return CpuSet(cpus) if (cpus & ~isolated).bit_count() <= count else CpuSet()


def unbooked_claim(container: Container, request: Request, grant: Grant) -> Problem | None:
    """The problem of a claim of which some cpus are others', or owed to others."""
    if not request.claimed or grant.exclusive == request.claimed:
        return None
    rest = request.claimed - grant.exclusive
    return Problem(
        where=container.path,
        what=f"cpus {rest} of its claim ({request.claimed}) are not free for it alone",
        fix="keep the driver's cpus and Pinfold's apart, with availableResources.cpu",
        container=container.name,
    )

"""Cpus that others than the policy gave to a container: they are taken, and nobody else's.

The container is left alone.
"""

from ...model.container import Container
from ...model.grant import Grant
from ...model.request import Request
from ...text.errors import Problem


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

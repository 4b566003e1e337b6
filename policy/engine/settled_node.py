"""A settled node: what the places of containers depend on, and whether that is the same again."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from ..configuration.config import Config
from ..model.container import Container, ContainerId
from ..model.grant import Grant
from ..pools.supply import Supply
from .engine import Engine
from .snapshot import Snapshot


class SettledNode(NamedTuple):
    """The node as far as the places of containers depend on it, at one moment.

    What was tried in vain on it need not be tried again while another look comes to an equal one.
    Comparing two is done in C, as nearly all are the same objects.
    """

    config: Config
    supply: Supply
    grants: Mapping[ContainerId, Grant]
    containers: Mapping[ContainerId, Container]
    """Their labels are what rules ask for, and not all that they ask for is in their grants."""
    left: Mapping[ContainerId, Grant]

    @classmethod
    def of(cls, node: Engine | Snapshot) -> Self:
        """The node of an engine at present, or of a snapshot. O(containers)."""
        held, known = dict(node.grants), dict(node.containers)
        return cls(node.config, node.supply, held, known, dict(node.left))

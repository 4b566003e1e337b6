"""A node whose containers run already, from which a scenario goes on, and what came of it."""

from collections.abc import Iterator, Mapping
from typing import Self

from msgspec import Struct

from ..configuration.config import Config
from ..engine.engine import Engine
from ..engine.snapshot import Snapshot
from ..tuning.interrupts import Interrupt
from .result import NodeDiff, NodePlace
from .simulated_runtime import Running


class RunningNode(Struct, frozen=True, kw_only=True):
    """A node as it runs, and as the scenario begins with it: under another configuration, maybe."""

    before: Snapshot
    now: Snapshot
    interrupts: tuple[Interrupt, ...] = ()

    @classmethod
    def of(cls, engine: Engine, config: Config | None = None) -> Self:
        """The node of an engine, reconfigured where a configuration is given.

        Raises `ConfigError`.
        """
        before = engine.snapshot()
        planned = engine if config is None else engine.reconfigured(config)[0]
        return cls(before=before, now=planned.snapshot(), interrupts=engine.interrupts)

    @property
    def latest(self) -> int:
        """The creation time of the youngest container; 0 where none runs."""
        return max((one.created_at for one in self.now.containers.values()), default=0)

    def engine(self) -> Engine:
        """Another engine that holds what the node does."""
        engine = Engine.of(self.now)
        engine.interrupts = self.interrupts
        return engine

    def running(self) -> Iterator[Running]:
        """The node's placed containers as the scenario's runtime has them, oldest first."""
        for container_id in self.now.grants:
            yield Running(
                container=self.now.containers[container_id],
                cpus=self.now.cpus_of(container_id),
                mems=self.now.memory_of(container_id),
                decision=self.now.decisions.get(container_id),
            )


def node_diff(node: RunningNode, engine: Engine) -> NodeDiff:
    """The containers that came to a node, went, or are elsewhere now, each by its path."""
    before, after = _places(node.before), _places(engine.snapshot())
    return NodeDiff(
        added={path: after[path] for path in sorted(after.keys() - before.keys())},
        moved={
            path: (before[path], after[path])
            for path in sorted(before.keys() & after.keys())
            if before[path] != after[path]
        },
        gone={path: before[path] for path in sorted(before.keys() - after.keys())},
    )


def _places(snapshot: Snapshot) -> Mapping[str, NodePlace]:
    return {
        snapshot.containers[container_id].path: NodePlace(
            pool=snapshot.tree.pools[grant.pool_id].name,
            cpus=str(snapshot.cpus_of(container_id) or ""),
            mems=str(snapshot.memory_of(container_id)),
        )
        for container_id, grant in snapshot.grants.items()
    }

"""Laws of required rules where pods must be in pools, share beside own cpus, and have replicas."""

import os
from typing import Final

import pytest

from pinfold.policy.model.container import QosClass
from tests.property.test_rule_laws import (
    APPS,
    LEVELS,
    MACHINES,
    STEPS,
    Pod,
    Rule,
    World,
    written,
)
from tests.unit.policy.engine.ruled_pods import container_of

_SEEDS: Final = range(int(os.environ.get("PINFOLD_RULE_SEEDS", "60")))
_SELECTOR: Final = "pool-selector.pinfold.dev/pod"
_SIZES: Final = ((0, False), (0.1, False), (0.5, False), (1.5, False), (1, True), (1.5, True))
"""Cpus, and whether as many as there are whole ones are its own."""
_TWINS: Final = 0.5
"""The share of newcomers that are replicas of somebody."""


class HeldWorld(World):
    """A world in which many pods must be in a NUMA node, and many are replicas of others."""

    def new_pod(self) -> Pod:
        """A replica of one that is there, or a pod of its own."""
        draw, told = self.random, dict[str, str]()
        self.count += 1
        if self.pods and draw.random() < _TWINS:
            one = self.pods[draw.choice(sorted(self.pods))]
            pod = one.container.pod
            told |= {key: text for key, text in pod.annotations.items() if key == _SELECTOR}
            size = one.container.resources.cpu_request_milli / 1000
            own = pod.qos is QosClass.GUARANTEED
            return self._pod(one.app, one.rules, size, told, fails=one.fails, own=own)
        app = draw.choice(APPS)
        rules = tuple(
            Rule(draw.choice(LEVELS), draw.choice((*APPS, app)), draw.random() < 0.8)
            for _ in range(draw.choice((0, 1, 1, 2)))
        )
        if draw.random() < 0.5:
            node = draw.choice([one.id for one in self.machine.numa_nodes if one.cpus])
            told[_SELECTOR] = f"numa={node}"
        size, own = draw.choice(_SIZES)
        return self._pod(app, rules, size, told, fails=draw.random() < 0.8, own=own)

    def _pod(
        self,
        app: str,
        rules: tuple[Rule, ...],
        size: float,
        told: dict[str, str],
        *,
        fails: bool,
        own: bool,
    ) -> Pod:
        container = container_of(
            f"p{self.count}",
            size,
            written(rules),
            app=app,
            fails=fails,
            is_guaranteed=own,
            shares=not own,
            annotations=told,
        )
        return Pod(container, app, rules, fails)


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_is_required_holds_after_every_event_where_many_are_held(seed: int) -> None:
    HeldWorld(MACHINES[seed % len(MACHINES)], seed).live(STEPS)

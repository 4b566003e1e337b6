"""The pages for monitoring: what is measured, and whether all is well."""

from collections.abc import Mapping
from http import HTTPStatus
from itertools import chain
from typing import Final

from ...nri.dispatch.actuator import SUSPECT
from ...policy.engine.gauges import is_selected, read_gauges
from ...topology.sysfs.available_memory import read_used_memory
from ...topology.sysfs.sysfs_tree import SysfsTree
from ..daemon.daemon import Daemon
from ..web.web_server import Page, Pages
from .exposition import CONTENT_TYPE, Exposition
from .pinning_gauges import pinning_gauges
from .process_figures import GROUP as PROCESS

_POLICY_SECONDS: Final = 2.0
"""How long the policy may be busy; whoever asks waits for ten seconds, as a rule."""

_BUILD: Final = "buildinfo"


class MetricPages:
    """Looks at a daemon when it is asked; nothing is counted in between."""

    def __init__(self, daemon: Daemon, tree: SysfsTree | None, groups: tuple[str, ...]) -> None:
        """`tree`: where the memory in use can be read; `groups`: patterns of what is shown."""
        self._daemon = daemon
        self._tree = tree
        self._groups = groups
        self._exposition = Exposition()

    def pages(self, *, with_metrics: bool) -> Pages:
        """The pages by path."""
        health: Pages = {"/healthz": self._health}
        return {**health, "/metrics": self._metrics} if with_metrics else health

    def _metrics(self) -> Page:
        plugin = self._daemon.plugin
        try:
            # A look at one moment; everything else is worked out here, while the policy goes on.
            snapshot = plugin.owner.ask(
                "metrics", lambda: plugin.events.policy.snapshot(), _POLICY_SECONDS
            )
        except TimeoutError as error:
            return Page(content=f"{error}\n".encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)
        used_bytes: Mapping[int, int] = {}
        if self._tree is not None:
            used_bytes = read_used_memory(self._tree)
        actuator = plugin.actuator
        pinning = pinning_gauges(
            actuator.counts(), drifts=self._daemon.tally.drifts, is_suspect=actuator.is_suspect
        )
        gauges = (
            gauge
            for gauge in chain(read_gauges(snapshot, used_bytes), pinning)
            if is_selected(gauge.group, self._groups)
        )
        content = self._exposition.page(
            gauges,
            with_build=is_selected(_BUILD, self._groups),
            with_process=is_selected(PROCESS, self._groups),
        )
        return Page(content=content, content_type=CONTENT_TYPE)

    def _health(self) -> Page:
        plugin = self._daemon.plugin
        # A container that is not as it should be is no reason to restart us: it is a metric.
        problems: list[str] = []
        try:
            plugin.owner.ask("policy", lambda: None, _POLICY_SECONDS)
        except TimeoutError as error:
            problems.append(str(error))
        if not plugin.wait_until_ready(0):
            problems.append("runtime: not connected, or it did not tell what runs")
        if plugin.actuator.is_suspect:
            problems.append(SUSPECT)
        if not problems:
            return Page(content=b"ok\n")
        content = "".join(f"{one}\n" for one in problems).encode()
        return Page(content=content, status=HTTPStatus.INTERNAL_SERVER_ERROR)

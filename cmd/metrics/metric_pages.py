"""The pages for monitoring: what is measured, and whether all is well."""

from collections.abc import Iterable, Mapping
from functools import cache, partial
from http import HTTPStatus
from itertools import chain
from typing import Final

from prometheus_client.core import Metric

from ...nri.dispatch.actuator import SUSPECT
from ...nri.dispatch.front import take_snapshot
from ...policy.engine.gauges.gauge import Gauge, is_selected
from ...policy.engine.gauges.gauge_reader import GaugeReader
from ...policy.engine.rebalance.satisfied_weight import SatisfiedWeight
from ...topology.sysfs.available_memory import read_used_memory
from ...topology.sysfs.sysfs_tree import SysfsTree
from ..daemon.daemon import Daemon
from ..web.web_server import Page, Pages
from .daemon_families import GROUP as OWN
from .daemon_families import DaemonLook, daemon_families
from .domain_gauges import DomainGauges
from .event_counts import EventCounts
from .exposition import CONTENT_TYPE, Exposition
from .pinning_gauges import pinning_gauges
from .placement_info import placement_families
from .process_metrics import GROUP as PROCESS

_POLICY_SECONDS: Final = 2.0
"""How long the policy may be busy; whoever asks waits for ten seconds, as a rule."""

_BUILD: Final = "buildinfo"


class MetricPages:
    """Looks at a daemon when it is asked; nothing is counted in between."""

    def __init__(
        self,
        daemon: Daemon,
        tree: SysfsTree | None,
        groups: tuple[str, ...],
        counts: EventCounts,
    ) -> None:
        """`tree`: where the memory in use can be read; `groups`: patterns of what is shown."""
        self._counts = counts
        self._daemon = daemon
        self._tree = tree
        self._is_shown = cache(partial(is_selected, patterns=groups))
        """Whether a group is among those that are shown: patterns and groups stay the same."""
        self._gauges = GaugeReader()
        self._pacer = daemon.front.owner.pacer
        self._weight = SatisfiedWeight()
        """Kept from page to page, which are made one at a time."""
        self._domains = DomainGauges()
        self._exposition = Exposition(self._pacer)

    def pages(self, *, with_metrics: bool) -> Pages:
        """The pages by path."""
        health: Pages = {
            "/healthz": self._health,
            "/livez": lambda: self._checked(self._live(), is_verbose=False),
            "/livez?verbose": lambda: self._checked(self._live(), is_verbose=True),
            "/readyz": lambda: self._checked(self._ready(), is_verbose=False),
            "/readyz?verbose": lambda: self._checked(self._ready(), is_verbose=True),
        }
        return {**health, "/metrics": self._metrics} if with_metrics else health

    def _metrics(self) -> Page:
        front = self._daemon.front
        try:
            # A look at one moment; everything else is worked out here, while the policy goes on.
            snapshot = take_snapshot(front, "metrics", _POLICY_SECONDS)
        except TimeoutError as error:
            return Page(content=f"{error}\n".encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)
        used_bytes: Mapping[int, int] = {}
        if self._tree is not None:
            used_bytes = read_used_memory(self._tree)
        actuator = front.actuator
        pinning = pinning_gauges(
            actuator.counts(),
            drifts=self._daemon.tally.drifts,
            bound_threads=self._daemon.audit.bound_threads,
            is_suspect=actuator.is_suspect,
        )
        # Read as the page is made, one page at a time.
        gauges = (
            gauge
            for gauge in chain(self._gauges.read(snapshot, used_bytes, self._pacer.rest), pinning)
            if self._is_shown(gauge.group)
        )
        look = DaemonLook(
            snapshot=snapshot,
            counts=self._counts,
            is_connected=front.wait_until_ready(0),
            reconnections=max(0, self._daemon.tally.connections - 1),
            reload=self._daemon.last_reload,
            state_fault=self._daemon.state_fault(),
            history_fault=self._daemon.history_fault(),
        )
        families: Iterable[Metric | Gauge] = ()
        if self._is_shown(OWN):
            families = chain(
                daemon_families(look, self._weight, self._domains, self._pacer),
                placement_families(snapshot),
            )
        content = self._exposition.page(
            gauges,
            families,
            with_build=self._is_shown(_BUILD),
            with_process=self._is_shown(PROCESS),
        )
        return Page(content=content, content_type=CONTENT_TYPE)

    def _health(self) -> Page:
        problems = [problem for _, problem in self._ready() if problem]
        if not problems:
            return Page(content=b"ok\n")
        content = "".join(f"{one}\n" for one in problems).encode()
        return Page(content=content, status=HTTPStatus.INTERNAL_SERVER_ERROR)

    def _live(self) -> list[tuple[str, str]]:
        """Checks that only a restart of the daemon could mend, and what is wrong with each."""
        try:
            self._daemon.front.owner.ask("policy", lambda: None, _POLICY_SECONDS)
        except TimeoutError as error:
            return [("policy", str(error))]
        return [("policy", "")]

    def _ready(self) -> list[tuple[str, str]]:
        """Checks of all that a node's containers need of us, and what is wrong with each."""
        front = self._daemon.front
        is_ready = front.wait_until_ready(0)
        # A container that is not as it should be is no reason to restart us: it is a metric.
        return [
            *self._live(),
            ("runtime", "" if is_ready else "runtime: not connected, or it did not tell what runs"),
            ("answers", SUSPECT if front.actuator.is_suspect else ""),
        ]

    def _checked(self, checks: list[tuple[str, str]], *, is_verbose: bool) -> Page:
        """The answer as Kubernetes components give it. Source: its documentation, API health."""
        bad = [problem for _, problem in checks if problem]
        status = HTTPStatus.SERVICE_UNAVAILABLE if bad else HTTPStatus.OK
        if not bad and not is_verbose:
            return Page(content=b"ok\n")
        lines = [
            f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"
            for name, problem in checks
        ]
        lines.append("not ready" if bad else "ok")
        return Page(content="".join(f"{one}\n" for one in lines).encode(), status=status)

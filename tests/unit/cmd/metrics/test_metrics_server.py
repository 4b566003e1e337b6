"""MetricsServer and health over HTTP, of a daemon that serves the embedded runtime."""

import errno
import gc
import http.client
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.metrics import placement_info
from pinfold.cmd.metrics.event_counts import EventCounts
from pinfold.cmd.metrics.exposition import Exposition, prometheus_name
from pinfold.cmd.metrics.metrics_server import LOOK_SECONDS, MetricsServer
from pinfold.cmd.web.web_server import Page, WebServer
from pinfold.nri.dispatch.actuator import SUSPECT
from pinfold.nri.dispatch.pacer import Pacer
from pinfold.nri.dispatch.update_sender import NoAnswerError
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.nri.plugin.plugin import RuntimeLink
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.configuration.endpoint import Endpoint
from pinfold.policy.engine.gauges.gauge import Gauge
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import ContainerId, QosClass, Resources
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

GIB = 2**30
LOG = logging.getLogger("test_metrics")
MACHINE = machine_from_spec("socket:1 numa:2 core:4 thread:1 mem:4G")
HERE = {"httpEndpoint": "127.0.0.1:0", "prometheusExport": True}
MANUAL = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()
SERVING = re.compile(r"event=serving address=127\.0\.0\.1:(\d+)")
Found = TypeVar("Found")
ZONE = "nri_policy_topologyaware_zone"


def config(**instrumentation: object) -> Config:
    return config_from_values(
        {"reservedResources": {"cpu": "cpuset:0"}, "instrumentation": instrumentation}
    )


def pod(name: str, milli: int) -> PodSpec:
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=GIB,
        memory_limit_bytes=GIB,
    )
    containers = (ContainerSpec(name=name, resources=resources),)
    return PodSpec(name=name, qos=QosClass.GUARANTEED, containers=containers)


class Node:
    """A daemon, its runtime, and what it serves."""

    def __init__(self, settings: Config, root: Path | None) -> None:
        self.runtime = EmbeddedRuntime()
        self.now = 100.0
        counts = EventCounts()
        self.daemon = Daemon(
            MACHINE,
            settings,
            embedded_link(self.runtime),
            reports=(counts,),
            clock=lambda: self.now,
        )
        self.metrics = MetricsServer(self.daemon, None if root is None else str(root), LOG, counts)

    def start(self) -> None:
        # The timers' own thread would look at another clock than the test.
        self.daemon.timers.start = lambda: None  # type: ignore[method-assign]
        self.daemon.start()
        assert self.runtime.wait_until_synchronized(5)
        assert self.daemon.front.wait_until_ready(5)
        self.metrics.follow()

    def stop(self) -> None:
        self.metrics.stop()
        self.daemon.stop()

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds
        self.daemon.timers.work_off()

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        assert self.metrics.port is not None
        return get(self.metrics.port, path, method)

    def values(self) -> dict[str, dict[tuple[str, ...], float]]:
        """By name the samples on the page, each by its labels in the order of their names."""
        status, text = self.get("/metrics")
        assert status == HTTPStatus.OK
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                labels = tuple(text for _, text in sorted(one.labels.items()))
                found.setdefault(one.name, {})[labels] = one.value
        return found


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def is_served(port: int) -> bool:
    try:
        get(port, "/healthz")
    except ConnectionRefusedError:
        return False
    except ConnectionError:
        # It took the client, or was about to, and left it: it is on its way out.
        return True
    return True


def until(look: Callable[[], Found | None]) -> Found:
    """What is found in the end, before patience is."""
    pause = threading.Event()
    for _ in range(1200):
        if found := look():
            return found
        pause.wait(0.05)
    raise AssertionError("it never comes")


Run = Callable[..., Node]


@pytest.fixture(name="run")
def fixture_run() -> Generator[Run]:
    running: list[Node] = []

    def run(settings: Config | None = None, root: Path | None = None) -> Node:
        node = Node(settings or config(**HERE), root)
        running.append(node)
        node.start()
        return node

    yield run
    for node in running:
        node.stop()


def test_what_is_granted_is_on_the_page(run: Run) -> None:
    node = run()
    before = node.values()
    assert before[f"{ZONE}_cpu_capacity_cores"] == {
        ("0-3", "0", "NUMA node #0"): 4,
        ("4-7", "1", "NUMA node #1"): 4,
        ("0-7", "0-1", "socket #0"): 8,
    }
    assert not start_pods(node.runtime, [pod("alone", 2000)], 8 * GIB)
    assert node.daemon.front.settle()
    after = node.values()
    (grant,) = node.daemon.engine.grants.values()
    zone = node.daemon.engine.tree.pools[grant.pool_id].name
    assert after[f"{ZONE}_container_count"][zone,] == 1
    shared = f"{ZONE}_cpu_shared_capacity_cores"
    assert after[shared]["socket #0",] == before[shared]["socket #0",] - 2
    assert sum(after["nri_policy_cpu_allocation_milli_cores"].values()) == 2000
    assert after["nri_policy_mem_node_capacity_bytes"]["0", "DRAM"] == 4 * GIB
    assert after["pinfold_build_info"]


def test_the_page_has_all_instruments_that_operators_are_told_of(run: Run, tmp_path: Path) -> None:
    rows = re.findall(
        r"^\| [^|]+ \| `((?:nri|pinfold|process)_\w+)` \| (.*) \|$", MANUAL, re.MULTILINE
    )
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    root = tmp_path / "root"
    root.mkdir()
    write_tree(machine_snapshot(MACHINE), str(root))
    (root / "sys/devices/system/node/node0/meminfo").write_text("Node 0 MemUsed: 5 kB\n")
    _, text = run(root=root).get("/metrics")
    assert told == {
        one.name: set(one.labels)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("policy.a", "cores", "nri_policy_a_cores"),
        ("policy.a", "milli-cores", "nri_policy_a_milli_cores"),
        ("policy.a.count", "", "nri_policy_a_count"),
    ],
)
def test_instruments_are_named_as_their_exporter_names_them(
    name: str, unit: str, expected: str
) -> None:
    assert prometheus_name(name, unit) == expected


def test_a_large_page_is_made_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that starts meanwhile needs its turns (see there)."""
    labels = [{"n": str(number)} for number in range(1000)]
    gauge = Gauge(
        name="many",
        unit="",
        help="Many.",
        group="policy/system",
        labels=labels,
        values=range(1000),
    )
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    # Each look at the clock is later than the one before by more than a thread goes on.
    pacer = Pacer(lambda: False, partial(next, count(0.0, 0.001)))
    page = Exposition(pacer).page([gauge], with_build=False, with_process=False)
    assert page.count(b"\nnri_many{") == 1000
    assert len(pauses) > 10


def test_the_daemon_tells_of_itself(run: Run) -> None:
    node = run(config(**HERE, metrics={"enabled": ["process"]}))
    resident = "process_resident_memory_bytes"

    def at_rest() -> dict[str, dict[tuple[str, ...], float]] | None:
        before = node.values()[resident][()]
        time.sleep(0.2)
        after = node.values()
        return after if abs(after[resident][()] - before) < 1 << 20 else None

    # What the tests before held is given back by and by: servers end in their own time.
    gc.collect()
    found = until(at_rest)
    assert all(name.startswith("process_") for name in found)
    assert found[resident][()] > 1 << 20
    assert found["process_threads"][()] >= threading.active_count() - 1
    assert found["process_open_fds"][()] > 3
    ballast = bytearray(os.urandom(1 << 20)) * 32
    with tempfile.TemporaryFile() as file:
        file.write(ballast)
        file.flush()
        os.fsync(file.fileno())
        later = node.values()
    assert later[resident][()] - found[resident][()] > len(ballast) // 2
    for name in ("process_cpu_seconds_total", "process_disk_written_bytes_total"):
        assert later[name][()] >= found[name][()]
    switches = "process_context_switches_total"
    assert later[switches]["voluntary",] > found[switches]["voluntary",]


def test_memory_in_use_is_read_as_somebody_looks(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    write_tree(machine_snapshot(MACHINE), str(root))
    meminfo = root / "sys/devices/system/node/node1/meminfo"
    node = run(root=root)
    for used in (5, 7):
        meminfo.write_text(f"Node 1 MemTotal: 4194304 kB\nNode 1 MemUsed: {used} kB\n")
        assert node.values()["nri_policy_mem_node_usage_bytes"]["1",] == used * 1024


@pytest.mark.parametrize(
    ("enabled", "has_zones", "has_cpus", "has_build"),
    [
        pytest.param(["policy/topologyaware"], True, False, False, id="the pools alone"),
        pytest.param(["system", "build*"], False, True, True, id="subsystems and patterns"),
        pytest.param(["rdt"], False, False, False, id="nothing that is measured"),
    ],
)
def test_groups_are_shown_as_configured(
    run: Run, enabled: list[str], has_zones: bool, has_cpus: bool, has_build: bool
) -> None:
    found = run(config(**HERE, metrics={"enabled": enabled})).values()
    assert (f"{ZONE}_container_count" in found) is has_zones
    assert ("nri_policy_cpu_container_count" in found) is has_cpus
    assert ("pinfold_build_info" in found) is has_build


def test_all_is_well_while_runtime_and_policy_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = run()
    assert node.get("/healthz") == (HTTPStatus.OK, "ok\n")
    assert node.get("/healthz?verbose=1") == (HTTPStatus.OK, "ok\n")
    assert node.get("/healthz", "HEAD") == (HTTPStatus.OK, "")
    seconds = "pinfold.cmd.metrics.metric_pages._POLICY_SECONDS"
    monkeypatch.setattr(seconds, 0.1)
    release = threading.Event()
    node.daemon.front.owner.submit("long work", release.wait)
    status, text = node.get("/healthz")
    assert status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert text == "policy: the policy is busy for more than 0.1 s\n"
    assert node.get("/metrics")[0] == HTTPStatus.SERVICE_UNAVAILABLE
    release.set()
    monkeypatch.setattr(seconds, 5.0)
    assert node.daemon.front.settle()
    assert node.get("/healthz")[0] == HTTPStatus.OK


class HungWay:
    """A CRI socket whose runtime answers nothing, until it does."""

    raises_events = True

    def __init__(self) -> None:
        self.answers = threading.Event()

    def send(self, updates: Mapping[ContainerId, Pinning]) -> Mapping[ContainerId, str]:
        if not self.answers.wait(20):
            raise NoAnswerError("no answer")
        return {}

    def close(self) -> None:
        self.answers.set()


def test_a_daemon_with_a_runtime_that_hangs_is_not_well(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.nri.dispatch.actuator.SILENCE_SECONDS", 0.1)
    node = run()
    actuator, way = node.daemon.front.actuator, HungWay()
    actuator.connect([way], "")
    actuator.want({ContainerId("c"): Pinning(cpus=MACHINE.online)})
    status, text = until(
        lambda: found if (found := node.get("/healthz"))[0] != HTTPStatus.OK else None
    )
    assert (status, text) == (HTTPStatus.INTERNAL_SERVER_ERROR, f"{SUSPECT}\n")
    assert node.values()["nri_policy_pinning_runtime_suspect"] == {(): 1}
    way.answers.set()
    assert until(lambda: node.get("/healthz")[0] == HTTPStatus.OK)


def test_a_daemon_without_its_runtime_is_not_well() -> None:
    def connect() -> socket.socket:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody")

    daemon = Daemon(MACHINE, config(**HERE), RuntimeLink(connect=connect))
    metrics = MetricsServer(daemon, None, LOG)
    daemon.start()
    metrics.follow()
    try:
        assert metrics.port is not None
        status, text = get(metrics.port, "/healthz")
        assert status == HTTPStatus.INTERNAL_SERVER_ERROR
        assert text == "runtime: not connected, or it did not tell what runs\n"
    finally:
        metrics.stop()
        daemon.stop()


def test_without_an_exporter_there_is_health_alone(run: Run) -> None:
    node = run(config(httpEndpoint="127.0.0.1:0"))
    assert node.get("/healthz")[0] == HTTPStatus.OK
    assert node.get("/metrics") == (
        HTTPStatus.NOT_FOUND,
        "here are /healthz and /livez and /readyz\n",
    )


def test_without_an_endpoint_nobody_listens_and_nothing_is_loaded(run: Run) -> None:
    assert run(config(prometheusExport=True)).metrics.port is None
    program = (
        "import sys, pinfold.cmd.pinfoldd\n"
        "late = ('prometheus_client', 'http.server', 'uvicorn', 'asyncio')\n"
        "print([one for one in late if one in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed == "[]\n"


def test_a_reload_takes_effect(run: Run) -> None:
    node = run()
    first = node.metrics.port
    assert first is not None
    node.metrics.follow()
    assert node.metrics.port == first, "nothing changed: whoever is connected stays"
    node.daemon.reconfigure(config(**HERE, metrics={"enabled": ["buildinfo"]}))
    node.metrics.follow()
    assert set(node.values()) == {"pinfold_build_info"}
    node.daemon.reconfigure(config())
    node.metrics.follow()
    assert node.metrics.port is None
    with pytest.raises(ConnectionRefusedError):
        get(first, "/healthz")


def test_a_port_in_use_is_one_error_and_the_daemon_goes_on(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = config(httpEndpoint=f"127.0.0.1:{port}")
        node = run(settings)
        assert node.metrics.port is None
        (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert record.getMessage() == (
            f"instrumentation.httpEndpoint: cannot listen at 127.0.0.1:{port}: address already in"
            " use; trying again every 10 s — another program listens there; name another port"
        )
        assert not start_pods(node.runtime, [pod("alone", 2000)], 8 * GIB)
        assert len(node.daemon.engine.grants) == 1
    node.pass_seconds(LOOK_SECONDS)
    assert node.metrics.port == port
    assert node.get("/healthz")[0] == HTTPStatus.OK


def test_a_reload_to_a_port_in_use_leaves_the_old_one_until_the_other_is_free(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    node = run()
    first = node.metrics.port
    assert first is not None
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        node.daemon.reconfigure(config(httpEndpoint=f"127.0.0.1:{port}"))
        node.metrics.follow()
        for _ in range(3):
            node.pass_seconds(LOOK_SECONDS)
        assert node.get("/healthz")[0] == HTTPStatus.OK
        assert node.get("/metrics")[0] == HTTPStatus.NOT_FOUND, "what is served is as configured"
        (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert f"; serving at 127.0.0.1:{first} as before, and trying" in record.getMessage()
    node.pass_seconds(LOOK_SECONDS)
    assert node.metrics.port == port
    assert node.get("/healthz")[0] == HTTPStatus.OK
    assert not is_served(first)


def test_the_same_port_at_another_address_is_our_own_to_leave(run: Run) -> None:
    node = run()
    port = node.metrics.port
    assert port is not None
    for host in ("", "127.0.0.1", ""):
        node.daemon.reconfigure(config(httpEndpoint=f"{host}:{port}"))
        node.metrics.follow()
        assert node.metrics.port == port
        assert node.get("/healthz")[0] == HTTPStatus.OK


def test_whoever_is_in_the_way_at_the_same_port_we_stay_where_we_are(run: Run) -> None:
    node = run()
    port = node.metrics.port
    assert port is not None
    with socket.create_server(("127.0.0.2", port)):
        node.daemon.reconfigure(config(httpEndpoint=f":{port}"))
        node.metrics.follow()
        assert node.get("/healthz")[0] == HTTPStatus.OK


def test_after_the_end_nothing_is_opened_again(run: Run) -> None:
    node = run()
    node.metrics.stop()
    node.pass_seconds(LOOK_SECONDS)
    assert node.metrics.port is None


def test_a_fault_of_a_page_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    def page() -> Page:
        raise RuntimeError("here")

    server = WebServer(Endpoint("127.0.0.1", 0), {"/": page}, LOG)
    try:
        status, text = get(server.port, "/")
        assert (status, text) == (HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of ours\n")
        assert "event=fault during=/" in caplog.text
        assert get(server.port, "/", "POST")[0] == HTTPStatus.METHOD_NOT_ALLOWED
    finally:
        server.stop()


def test_the_daemon_serves_from_its_start_and_follows_its_configuration(tmp_path: Path) -> None:
    settings = tmp_path / "pinfold.yaml"
    settings.write_text("instrumentation: {httpEndpoint: '127.0.0.1:0', prometheusExport: true}\n")
    log = tmp_path / "log"
    arguments = (f"--config={settings}", "--machine=socket:1 core:4 mem:1G", "--runtime=embedded")
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "pinfold.cmd.pinfoldd", *arguments], stderr=output
        ) as daemon,
    ):
        try:
            port = int(until(lambda: SERVING.search(log.read_text()))[1])
            assert get(port, "/metrics")[0] == HTTPStatus.OK
            assert "no effect" not in log.read_text()
            settings.write_text("instrumentation: {httpEndpoint: ''}\n")
            daemon.send_signal(signal.SIGHUP)
            until(lambda: "event=reconfigured" in log.read_text())
            until(lambda: not is_served(port))
        finally:
            daemon.terminate()
            assert daemon.wait(60) == 0


@pytest.mark.parametrize(
    ("path", "good"),
    [
        ("/livez", "ok\n"),
        ("/livez?verbose", "[+]policy ok\nok\n"),
        ("/readyz", "ok\n"),
        ("/readyz?verbose", "[+]policy ok\n[+]runtime ok\n[+]answers ok\nok\n"),
    ],
)
def test_probes_of_kubernetes_are_answered(run: Run, path: str, good: str) -> None:
    assert run().get(path) == (HTTPStatus.OK, good)


def test_a_node_without_its_runtime_is_alive_and_not_ready(run: Run) -> None:
    node = run()
    node.daemon.front.stop()
    until(lambda: not node.daemon.front.wait_until_ready(0) or None)
    assert node.get("/livez") == (HTTPStatus.OK, "ok\n")
    status, text = node.get("/readyz")
    assert status == HTTPStatus.SERVICE_UNAVAILABLE
    assert text.splitlines() == [
        "[+]policy ok",
        "[-]runtime failed: runtime: not connected, or it did not tell what runs",
        "[+]answers ok",
        "not ready",
    ]


def test_places_of_containers_are_told_only_where_somebody_asks(run: Run) -> None:
    node = run()
    assert not start_pods(node.runtime, [pod("web", 2000), pod("db", 1000)], 8 * GIB)
    assert node.daemon.front.settle()
    assert "pinfold_container_placement" not in node.get("/metrics")[1]
    node.daemon.reconfigure(config(**HERE, metrics={"containerPlacementInfo": True}))
    found = node.values()
    assert found["pinfold_container_placement_omitted"] == {(): 0}
    # In the order of the labels' names: container, cpus, kind, mems, namespace, pod, pool.
    assert found["pinfold_container_placement_info"] == {
        ("db", "1", "exclusive", "0", "default", "db", "NUMA node #0"): 1,
        ("web", "4-5", "exclusive", "1", "default", "web", "NUMA node #1"): 1,
    }


def test_of_too_many_containers_the_first_are_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement_info, "SERIES_MAX", 1)
    node = run(config(**HERE, metrics={"containerPlacementInfo": True}))
    assert not start_pods(node.runtime, [pod("web", 2000), pod("db", 1000)], 8 * GIB)
    assert node.daemon.front.settle()
    found = node.values()
    (told,) = found["pinfold_container_placement_info"]
    assert "db" in told
    assert found["pinfold_container_placement_omitted"] == {(): 1}

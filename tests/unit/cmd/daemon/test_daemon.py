"""The daemon as a process: start, readiness, reload, stop, and what it cannot work with."""

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import pytest

from pinfold.cmd.control.control_client import ControlClient
from pinfold.nri.api import nri_pb2
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime

MACHINE = "socket:1 numa:1 core:8 thread:1 mem:8G"
SECONDS = 60
PATIENT = Path(__file__).with_name("patient_pinfoldd.py")

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: once, resources: {limits: {cpu: 1, memory: 100M}}}
  containers:
  - {name: alone, resources: {limits: {cpu: 2, memory: 100M}}}
"""


class Process:
    """A running daemon, the socket it notifies, and its log."""

    def __init__(
        self, folder: Path, *arguments: str, standard_error: int | None = None, **environment: str
    ) -> None:
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind(str(folder / "notify"))
        self.notices.settimeout(SECONDS)
        self.log = folder / "log"
        config = folder / "pinfold.yaml"
        config.touch()
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(PATIENT),
                    f"--machine={MACHINE}",
                    f"--config={config}",
                    *arguments,
                ],
                stderr=log if standard_error is None else standard_error,
                env={**kept, "NOTIFY_SOCKET": str(folder / "notify"), **environment},
            )

    def await_notice(self, text: str) -> str:
        while text not in (notice := self.notices.recv(4096).decode()):
            pass
        return notice

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


Start = Callable[..., Process]


@pytest.fixture(name="start")
def fixture_start(tmp_path: Path) -> Generator[Start]:
    """Starts daemons and ends what a failed test leaves of them."""
    started: list[Process] = []

    def start(*arguments: str, standard_error: int | None = None, **environment: str) -> Process:
        process = Process(tmp_path, *arguments, standard_error=standard_error, **environment)
        started.append(process)
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait(SECONDS)
        one.notices.close()


@pytest.fixture(name="listener")
def fixture_listener(tmp_path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "nri.sock"))
        listener.listen(1)
        listener.settimeout(SECONDS)
        yield listener


def accept(listener: socket.socket, runtime: EmbeddedRuntime) -> None:
    connection, _ = listener.accept()
    connection.settimeout(None)
    runtime.serve(connection)
    assert runtime.wait_until_synchronized(SECONDS)


def test_daemon_is_ready_after_synchronize_and_leaves_everything_as_it_is(
    tmp_path: Path, start: Start, listener: socket.socket
) -> None:
    daemon = start(f"--nri-socket={tmp_path}/nri.sock", "--nri-plugin-index=42")
    runtime = EmbeddedRuntime(request_timeout_seconds=SECONDS)
    accept(listener, runtime)
    assert runtime.plugin_name == "42-pinfold"
    assert "READY=1" in daemon.await_notice("READY=1")
    runtime.run_pod(nri_pb2.PodSandbox(id="p", name="p", linux={"cgroup_parent": "/kubepods/pod1"}))
    container = nri_pb2.Container(id="c", pod_sandbox_id="p", name="c")
    container.linux.resources.cpu.shares.value = 2048
    assert runtime.create(container).linux.resources.cpu.cpus == "1-2"
    assert daemon.end() == 0
    assert runtime.containers["c"].linux.resources.cpu.cpus == "1-2"
    assert runtime.update_counts == {}
    log = daemon.log.read_text()
    assert (
        'event=create pod=default/p container=c id=c request="2 exclusive CPUs" kind=exclusive'
        ' pool="socket #0" cpus=1-2 mems=0'
    ) in log
    assert "Traceback" not in log


def test_daemon_waits_for_a_runtime_that_is_not_there(tmp_path: Path, start: Start) -> None:
    daemon = start(f"--nri-socket={tmp_path}/none.sock")
    daemon.await_notice("STATUS=waiting for the runtime: cannot connect: No such file")
    assert daemon.end() == 0
    assert "none.sock: cannot connect: No such file or directory — enable NRI in" in (
        daemon.log.read_text()
    )


def test_reload_takes_a_good_configuration_and_keeps_the_old_one_for_a_bad_one(
    tmp_path: Path, start: Start
) -> None:
    (tmp_path / "pods.yaml").write_text(PODS)
    daemon = start("--runtime=embedded", f"--manifest={tmp_path}/pods.yaml")
    daemon.await_notice("READY=1")
    config = tmp_path / "pinfold.yaml"
    config.write_text("pinCPUs: yes\n")
    daemon.process.send_signal(signal.SIGHUP)
    assert "RELOADING=1\nMONOTONIC_USEC=" in daemon.await_notice("RELOADING=1")
    assert "has a fault" in daemon.await_notice("READY=1")
    config.write_text("colocatePods: true\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.await_notice("STATUS=configuration reloaded")
    assert daemon.end() == 0
    log = daemon.log.read_text()
    assert f"{config}:1:" in log
    assert "pinCPUs" in log
    assert "the old configuration stays in force" in log
    assert "event=reconfigured" in log


def test_embedded_runtime_runs_the_pods_of_manifests(tmp_path: Path, start: Start) -> None:
    (tmp_path / "pods.yaml").write_text(PODS)
    daemon = start("--runtime=embedded", f"--manifest={tmp_path}/pods.yaml")
    deadline = time.monotonic() + SECONDS
    while "container=alone" not in daemon.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert daemon.end() == 0
    lines = [line.partition("event=")[2] for line in daemon.log.read_text().splitlines()]
    assert [re.sub(r" id=\S+(?: request=.*)?", "", line) for line in lines[2:]] == [
        "create pod=default/web container=once",
        "release pod=default/web container=once updates=0",
        "create pod=default/web container=alone",
    ]


def test_devices_that_the_embedded_runtime_does_not_give_are_told(
    tmp_path: Path, start: Start
) -> None:
    wants = PODS.replace("cpu: 2, memory: 100M", "cpu: 2, memory: 100M, example.com/gpu: 1")
    (tmp_path / "pods.yaml").write_text(wants)
    daemon = start("--runtime=embedded", f"--manifest={tmp_path}/pods.yaml")
    deadline = time.monotonic() + SECONDS
    while "container=alone" not in daemon.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert daemon.end() == 0
    (warning,) = [line for line in daemon.log.read_text().splitlines() if "example.com" in line]
    assert "WARNING default/web/alone: example.com/gpu: the embedded runtime has no dev" in warning


def test_annotations_that_stand_where_they_reach_no_pod_of_a_manifest_are_told(
    tmp_path: Path, start: Start
) -> None:
    misplaced = PODS.replace("\nspec:", "\nspec:\n  smt.pinfold.dev/pod: pack", 1)
    (tmp_path / "pods.yaml").write_text(misplaced)
    daemon = start("--runtime=embedded", f"--manifest={tmp_path}/pods.yaml")
    deadline = time.monotonic() + SECONDS
    while "container=alone" not in daemon.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert daemon.end() == 0
    (warning,) = [line for line in daemon.log.read_text().splitlines() if "smt." in line]
    assert "WARNING" in warning
    assert (
        "an annotation counts only among annotations — move it to metadata.annotations" in warning
    )


def test_refused_container_of_a_manifest_stops_no_other(tmp_path: Path, start: Start) -> None:
    large = PODS.replace("name: web", "name: large").replace("name: alone", "name: vast")
    large = large.replace(
        "containers:", "containers:\n  - {name: x, resources: {limits: {cpu: 9000, memory: 1M}}}", 1
    )
    (tmp_path / "pods.yaml").write_text(f"{large}\n---\n{PODS}")
    daemon = start("--runtime=embedded", f"--manifest={tmp_path}/pods.yaml")
    deadline = time.monotonic() + SECONDS
    while "container=alone" not in daemon.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert daemon.end() == 0
    log = daemon.log.read_text()
    assert re.search(r'container=x id=\S+ request="9000 exclusive CPUs, [^"]+" refused=', log)
    assert 'event=connected runtime="embedded v' in log


def test_folder_for_the_state_is_made_for_nobody_else(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / "some" / "state"
    daemon = start("--runtime=embedded", f"--state-dir={folder}")
    daemon.await_notice("READY=1")
    assert daemon.end() == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "state.json").exists()
    assert "not saved" not in daemon.log.read_text()


def test_control_socket_is_beside_the_state_and_goes_with_the_daemon(
    tmp_path: Path, start: Start
) -> None:
    daemon = start("--runtime=embedded", f"--state-dir={tmp_path}/state")
    daemon.await_notice("READY=1")
    path = tmp_path / "state" / "control.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    status = ControlClient(path).status()
    assert (status.runtime.name, status.runtime.connected) == ("embedded", True)
    assert daemon.end() == 0
    assert not path.exists()
    assert "Traceback" not in daemon.log.read_text()


def test_second_daemon_at_a_control_socket_is_refused_with_status_two(
    tmp_path: Path, start: Start
) -> None:
    daemon = start("--runtime=embedded", f"--state-dir={tmp_path}/state")
    daemon.await_notice("READY=1")
    path = tmp_path / "state" / "control.sock"
    second = subprocess.run(
        [
            *(sys.executable, "-m", "pinfold.cmd.daemon_start", f"--machine={MACHINE}"),
            *("--runtime=embedded", f"--control={path}"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert second.returncode == 2
    assert second.stderr == (
        f"--control: {path}: another pinfoldd listens there — stop it, or name another place\n"
    )
    assert ControlClient(path).status().runtime.connected
    assert daemon.end() == 0


def test_second_daemon_with_a_state_directory_is_refused_whatever_its_control_socket(
    tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "state"
    daemon = start("--runtime=embedded", f"--state-dir={folder}", "--control=off")
    daemon.await_notice("READY=1")
    second = subprocess.run(
        [
            *(sys.executable, "-m", "pinfold.cmd.daemon_start", f"--machine={MACHINE}"),
            *("--runtime=embedded", f"--state-dir={folder}", "--control=off"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert second.returncode == 2
    assert second.stderr == (
        f"--state-dir: {folder}: another pinfoldd keeps its state there — stop it, or name another"
        " folder\n"
    )
    assert daemon.end() == 0


def test_daemon_that_was_killed_leaves_a_socket_that_the_next_one_replaces(
    tmp_path: Path, start: Start
) -> None:
    path = tmp_path / "state" / "control.sock"
    for number in range(2):
        daemon = start("--runtime=embedded", f"--state-dir={tmp_path}/state")
        daemon.await_notice("READY=1")
        assert ControlClient(path).status().runtime.connected
        daemon.notices.close()
        (tmp_path / "notify").unlink()
        if not number:
            daemon.process.kill()
            daemon.process.wait(SECONDS)
            assert path.exists()
    folders = [one.name for one in path.parent.iterdir() if one.is_dir()]
    assert len(folders) == 1, "that of the service of the one that was killed is gone"


def test_daemon_goes_on_where_its_usual_control_socket_cannot_be_made(
    tmp_path: Path, start: Start
) -> None:
    daemon = start("--runtime=embedded", RUNTIME_DIRECTORY=f"{tmp_path}/none")
    daemon.await_notice("READY=1")
    assert daemon.end() == 0
    assert "no such file or directory — name a place where a socket can be made, or 'off'" in (
        daemon.log.read_text()
    )


def test_watchdog_is_fed(start: Start) -> None:
    daemon = start("--runtime=embedded", WATCHDOG_USEC="20000")
    for _ in range(2):
        daemon.await_notice("WATCHDOG=1")
    assert daemon.end() == 0


def test_warnings_about_the_configuration_name_file_and_line_at_the_start_and_at_a_reload(
    tmp_path: Path, start: Start
) -> None:
    config = tmp_path / "pinfold.yaml"
    config.write_text("availableResources:\n  cpu: cpuset:0-9\n")
    daemon = start("--runtime=embedded")
    daemon.await_notice("READY=1")
    config.write_text("\navailableResources:\n  cpu: cpuset:0-8\n")
    daemon.await_notice("STATUS=configuration reloaded")
    assert daemon.end() == 0
    said = [one for one in daemon.log.read_text().splitlines() if "not online" in one]
    assert [one.partition(str(tmp_path))[2] for one in said] == [
        "/pinfold.yaml:2:3: availableResources.cpu: cpus 8-9 of 'cpuset:0-9' are not online",
        "/pinfold.yaml:3:3: availableResources.cpu: cpus 8 of 'cpuset:0-8' are not online",
    ]


def unread_pipe() -> tuple[int, int]:
    """The ends of the smallest pipe there is, which nobody reads."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    return reading, writing


def test_containers_start_while_nobody_reads_the_log_nor_hears_of_readiness(
    tmp_path: Path, start: Start, listener: socket.socket
) -> None:
    reading, writing = unread_pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        deaf.settimeout(SECONDS)
        others = stuff(str(tmp_path / "deaf"))
        daemon = start(
            f"--nri-socket={tmp_path}/nri.sock",
            "--log-level=debug",
            standard_error=writing,
            NOTIFY_SOCKET=str(tmp_path / "deaf"),
            WATCHDOG_USEC="20000",
        )
        runtime = EmbeddedRuntime(request_timeout_seconds=SECONDS)
        accept(listener, runtime)
        runtime.run_pod(
            nri_pb2.PodSandbox(id="p", name="p", linux={"cgroup_parent": "/kubepods/pod1"})
        )
        for number in range(100):
            container = nri_pb2.Container(id=f"c{number}", pod_sandbox_id="p", name="c" * 200)
            container.linux.resources.cpu.shares.value = 2048
            assert runtime.create(container).linux.resources.cpu.cpus == "1-2"
            runtime.stop(container.id)
        for _ in range(others):
            deaf.recv(99)
        while "READY=1" not in deaf.recv(999).decode():
            pass
        # What waits for its reader does not hold up the end, either.
        assert daemon.end() == 0
    os.close(writing)
    assert os.read(reading, 4096)
    os.close(reading)


def stuff(address: str) -> int:
    """Fill the queue of a socket; returns the number of messages it took."""
    count = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(address)
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.send(b"X=1")
                count += 1
    return count


def test_plugin_started_by_its_runtime_serves_the_socket_it_got_and_ends_with_it(
    tmp_path: Path,
) -> None:
    runtime = EmbeddedRuntime(request_timeout_seconds=SECONDS)
    theirs = runtime.connect()
    config = tmp_path / "pinfold.yaml"
    config.touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "pinfold.cmd.pinfoldd", f"--machine={MACHINE}", "--config", config],
        pass_fds=[theirs.fileno()],
        stderr=subprocess.PIPE,
        env={
            "NRI_PLUGIN_NAME": "fold",
            "NRI_PLUGIN_IDX": "07",
            "STATE_DIRECTORY": str(tmp_path),
            "NRI_PLUGIN_SOCKET": str(theirs.fileno()),
        },
    )
    theirs.close()
    assert runtime.wait_until_synchronized(SECONDS)
    assert runtime.plugin_name == "07-fold"
    runtime.drop()
    errors = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 0
    assert b"the state is not saved" not in errors
    assert (tmp_path / "state.json").exists()


def test_plugin_started_beside_another_daemon_registers_in_time_and_remembers_nothing(
    tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "state"
    service = start("--runtime=embedded", f"--state-dir={folder}")
    service.await_notice("READY=1")
    until = time.monotonic() + SECONDS
    while "state.json" not in state_of(folder) and time.monotonic() < until:
        time.sleep(0.05)
    kept = state_of(folder)
    runtime = EmbeddedRuntime(request_timeout_seconds=SECONDS)
    theirs = runtime.connect()
    begun = time.monotonic()
    plugin = subprocess.Popen(
        [*(sys.executable, "-m", "pinfold.cmd.pinfoldd"), f"--machine={MACHINE}"],
        pass_fds=[theirs.fileno()],
        stderr=subprocess.PIPE,
        env={"STATE_DIRECTORY": str(folder), "NRI_PLUGIN_SOCKET": str(theirs.fileno())},
    )
    theirs.close()
    try:
        assert runtime.wait_until_synchronized(SECONDS)
        # Runtimes wait for five; and it waits for three, once, as the other one might be ending.
        assert time.monotonic() - begun < 6
        runtime.run_pod(nri_pb2.PodSandbox(id="p", name="p"))
        container = nri_pb2.Container(id="c", pod_sandbox_id="p", name="c")
        assert runtime.create(container).linux.resources.cpu.cpus
        runtime.drop()
        errors = plugin.communicate(timeout=SECONDS)[1].decode()
    finally:
        plugin.kill()
        plugin.wait(SECONDS)
    assert state_of(folder) == kept
    assert (
        f"--state-dir: {folder}: another pinfoldd keeps its state there — stop it, or name another"
        " folder; nothing is remembered here"
    ) in errors
    assert "listens there" not in errors, "that is the other daemon's place, too"
    assert service.end() == 0


def state_of(folder: Path) -> dict[str, bytes]:
    """The content of the files in a state directory, and the names of its sockets."""
    return {one.name: one.read_bytes() if one.is_file() else b"" for one in folder.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--bogus"], "pinfoldd: no such option", id="an unknown option"),
        pytest.param(
            ["--nri-plugin-index=9"],
            "--nri-plugin-index: '9' — write two digits, as in '90'",
            id="an index of one digit",
        ),
        pytest.param(
            ["--nri-plugin-name=pin fold"],
            "--nri-plugin-name: 'pin fold' — write letters, digits and '_.+-' alone",
            id="a name newer runtimes refuse",
        ),
        pytest.param(["--nri-plugin-name="], "--nri-plugin-name: ''", id="no name"),
        pytest.param(
            ["--config=/nonexistent/pinfold.yaml"],
            "/nonexistent/pinfold.yaml: No such file or directory — name a readable file",
            id="a configuration that is not there",
        ),
        pytest.param(
            ["--set=pinCPUs=true"], "did you mean 'pinCPU'?", id="an unknown configuration field"
        ),
        pytest.param(
            ["--runtime=embedded", "--state-dir=/dev/null/state"],
            "--state-dir: /dev/null/state: not a directory — name a folder that is there or can",
            id="a folder for its state that cannot be made",
        ),
        pytest.param(
            ["--runtime=embedded", "--state-dir=/dev/null"],
            "--state-dir: /dev/null: not a directory",
            id="a state folder that is none",
        ),
        pytest.param(
            ["--runtime=embedded", "--state-dir="],
            "--state-dir: has no name — name one, or leave the option out",
            id="a state folder by a variable that is not set",
        ),
        pytest.param(
            ["--runtime=embedded", "--kernel-root="],
            "--kernel-root: has no name — name the one with sys/",
            id="a kernel by a variable that is not set",
        ),
        pytest.param(["--machine=cheese:2"], "cheese", id="a machine that makes no sense"),
        pytest.param(
            ["--runtime=embedded", "--kernel-root=/nonexistent"],
            "--kernel-root: /nonexistent: no folder is there — name the one with sys/ and proc/ in",
            id="a kernel that is not there",
        ),
        pytest.param(
            ["--runtime=embedded", "--kernel-root=/dev/null"],
            "--kernel-root: /dev/null: no folder is there",
            id="a kernel that is a file",
        ),
        pytest.param(
            ["--manifest=pods.yaml"],
            "pinfoldd: --manifest needs --runtime embedded",
            id="pods for a real runtime",
        ),
    ],
)
def test_what_it_cannot_work_with_ends_it_with_status_two(
    arguments: list[str], complaint: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pinfold.cmd.pinfoldd", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert complaint in run.stderr
    assert len(run.stderr.splitlines()) == 1, "one line says what is wrong"


LOADED_WHERE_USED: Final = (
    *("grpc", "google.rpc", "rich", "cpuinfo", "psutil", "prometheus_client", "uvicorn", "h11"),
    *("h2", "asyncio", "ssl", "http", "email", "multiprocessing", "importlib.metadata", "tempfile"),
    *("urllib.request", "subprocess", "tarfile", "lzma", "zipfile", "difflib"),
    *("hashlib", "_hashlib"),
    *("pinfold.nri.embedded", "pinfold.nri.api.cri_pb2", "pinfold.nri.api.podresources_pb2"),
    *("pinfold.policy.manifests", "pinfold.policy.scenarios", "pinfold.policy.engine.gauges"),
    *("pinfold.topology.made", "pinfold.topology.sysfs.archive"),
    *("pinfold.topology.sysfs.speed_select", "pinfold.cmd.kernel.speed_select"),
    *("pinfold.cmd.web", "pinfold.cmd.metrics.metric_pages", "pinfold.cmd.commands.demo"),
    *("pinfold.cmd.control.api", "pinfold.cmd.control.control_service", "secrets"),
    "pinfold.cmd.control.control_answers",
)


def test_daemon_loads_what_few_nodes_need_where_it_is_used() -> None:
    program = (
        "import sys, pinfold.cmd.pinfoldd\n"
        f"print([one for one in {LOADED_WHERE_USED!r} if one in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


def test_served_metrics_load_no_more_than_their_libraries_do() -> None:
    program = (
        "import logging, sys\n"
        "from pinfold.cmd.metrics.exposition import Exposition\n"
        "from pinfold.cmd.web.web_server import Endpoint, WebServer\n"
        "Exposition().page([], with_build=True, with_process=True)\n"
        "WebServer(Endpoint('127.0.0.1', 0), {}, logging.getLogger()).stop()\n"
        "print([one for one in ('importlib.metadata', 'encodings.idna') if one in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"

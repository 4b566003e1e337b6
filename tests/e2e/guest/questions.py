"""The ten questions an operator asks first, asked in the guest of forty pods that come and go.

It judges nothing: the tests on the host read what was answered and judge it.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from pinfold.cmd.control.control_client import ControlClient
from tests.e2e.cri import Cri
from tests.e2e.daemon import CONFIG, Daemon
from tests.e2e.node import Node, RunningPod
from tests.e2e.pods import ContainerSpec, PodSpec, best_effort, burstable, guaranteed

NODE_FOLDER: Final = Path("/run/node")
CALL_TIMEOUT_SECONDS: Final = 120
ANSWER_FILE: Final = "answers.json"
BUNDLE_FILE: Final = "node.tar"
_EXPLAINED: Final = "shop-2/web"
_COMMAND_TIMES: Final = 5
_QUESTION_TIMES: Final = 50
_PAUSE_SECONDS: Final = 2
"""Between the start of a job and the end of another one."""
_SETTLE_SECONDS: Final = 3
_TRIES: Final = 6

_PROGRAM: Final = """\
#!/usr/bin/python3
import sys
from pinfold.cmd.pinfold import main
sys.exit(main())
"""
"""The program as pip installs it."""

_SERVING: Final = """\
instrumentation:
  httpEndpoint: "127.0.0.1:8891"
  prometheusExport: true
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A question in an operator's words, and the commands that answer it."""

    words: str
    commands: tuple[str, ...]


QUESTIONS: Final = (
    Question("Where is it?", ("pinfold ps | grep -e reason -e shop-2",)),
    Question("Why is it there?", (f"pinfold explain {_EXPLAINED}",)),
    Question("What if this pod came?", ("cat late.yaml", "pinfold simulate late.yaml --running")),
    Question("Why was it refused?", ("pinfold explain wide",)),
    Question("Why is it slow?", ("pinfold top --seconds 5 | grep -e container -e slow",)),
    Question("Is it really pinned?", ("pinfold audit --threads",)),
    Question("What changed?", ("pinfold explain own", "tail -n 3 /var/log/pinfoldd.log")),
    Question("How full is the node?", ("pinfold status | head -n 10",)),
    Question(
        "How fragmented is it?",
        (
            "wget -qO- http://127.0.0.1:8891/metrics | grep ^pinfold_fragmentation",
            "pinfold rebalance",
        ),
    ),
    Question(
        "Is it healthy?",
        ("pinfold status | head -n 1", "wget -qO- 'http://127.0.0.1:8891/readyz?verbose'"),
    ),
)

SHOPS: Final = tuple(
    PodSpec(
        name=f"shop-{number}",
        containers=(guaranteed("db", 1), ContainerSpec(
            name="web", request_milli=500, limit_milli=500,
            memory_request_bytes=64 << 20, memory_limit_bytes=64 << 20,
        )),
        annotations={"resource-policy.nri.io/affinity": "web: [ db ]\n"},
    )
    for number in range(4)
)  # fmt: skip
SLOW: Final = PodSpec(
    name="slow",
    containers=(
        ContainerSpec(
            name="slow", request_milli=50, limit_milli=50, shell="while :; do :; done"
        ),
    ),
)  # fmt: skip
RESIDENTS: Final = (
    *SHOPS,
    SLOW,
    *(PodSpec(name=f"cache-{one}", containers=(burstable("cache", 250),)) for one in range(6)),
    *(PodSpec(name=f"batch-{one}", containers=(best_effort("batch"),)) for one in range(15)),
)
JOBS: Final = 14
OWN: Final = PodSpec(name="own", containers=(guaranteed("own", 2),))
WIDE: Final = PodSpec(name="wide", containers=(guaranteed("wide", 9),))
LATE: Final = (
    PodSpec(name="late", containers=(guaranteed("own", 2), guaranteed("side", 1))),
    PodSpec(name="later", containers=(burstable("job", 300),)),
    PodSpec(name="last", containers=(best_effort("idle"),)),
)
"""The pods of late.yaml."""


def manifest_text() -> str:
    """The pods that are still to come, as their authors would have written them."""
    return "---\n".join(json.dumps(one.manifest()) + "\n" for one in LATE)


class Churn:
    """Jobs of which the oldest ends and a new one starts, again and again, in a thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._jobs = deque[RunningPod]()
        self._count = 0
        self.turnovers = 0
        self.failures: list[str] = []

    def add(self) -> None:
        """Starts one more job."""
        name = f"job-{self._count}"
        self._count += 1
        spec = PodSpec(name=name, containers=(burstable("job", 100),))
        self._jobs.append(started(self._node, spec))

    @contextlib.contextmanager
    def going_on(self) -> Generator[None]:
        """Turns jobs over until the end of the block."""
        over = threading.Event()

        def turn() -> None:
            try:
                while not over.wait(_PAUSE_SECONDS):
                    self._node.end_pod(self._jobs.popleft())
                    self.add()
                    self.turnovers += 1
            except Exception:
                self.failures.append(traceback.format_exc())

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def say(text: str) -> None:
    """Prints a line, also where the host can watch it come."""
    print(text, flush=True)
    Path("/dev/console").write_text(f"{text}\n")


def started(node: Node, spec: PodSpec) -> RunningPod:
    """A pod that is started now; the host is told."""
    begin = time.monotonic()
    pod = node.start_pod(spec)
    say(f"{time.monotonic() - begin:6.1f} s  {spec.name} started")
    return pod


def refuse(node: Node, spec: PodSpec) -> None:
    """Has a pod refused. An emulated daemon may be late, and then the pod starts."""
    for _ in range(_TRIES):
        try:
            pod = node.start_pod(spec)
        except grpc.RpcError:
            return
        say(f"{spec.name} started, the answer was late; once more")
        node.end_pod(pod)
    raise TimeoutError(f"{spec.name} was never refused in time")


def start_in_time(node: Node, daemon: Daemon, spec: PodSpec) -> RunningPod:
    """A pod about which all was decided before it ran: what runs already has no choice."""
    client = ControlClient(daemon.control, CALL_TIMEOUT_SECONDS)
    for _ in range(_TRIES):
        pod = node.start_pod(spec)
        time.sleep(_SETTLE_SECONDS)
        decided = [
            one.decided_by
            for one in client.status().containers
            if one.container.split("/")[1] == spec.name
        ]
        if len(decided) == len(spec.containers) and not any(
            "runs already" in one for one in decided
        ):
            return pod
        say(f"{spec.name} ran before its answer; once more: {decided}")
        node.end_pod(pod)
    raise TimeoutError(f"{spec.name} was never placed in time")


def make_shell() -> None:
    """Makes the guest what a node is to who logs in: a program, its places, a loopback device."""
    program = Path("/usr/bin/pinfold")
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    Path("late.yaml").write_text(manifest_text())
    # Sixteen emulated cpus stand still for long where the host is busy; the kernel would complain.
    Path("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout").write_text("300")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def link_places(daemon: Daemon, state: Path) -> None:
    """Has the daemon's files where the unit of a node has them."""
    for place, target in (
        ("/run/pinfold/control.sock", daemon.control),
        ("/var/lib/pinfold", state),
        ("/var/log/pinfoldd.log", daemon.log),
    ):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).symlink_to(target)


def asked(command: str) -> dict[str, object]:
    """What a shell prints for a command, and how long that took."""
    begin = time.monotonic()
    done = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begin
    say(f"{seconds:6.1f} s  {command}\n{done.stdout}")
    return {
        "command": command,
        "output": done.stdout,
        "status": done.returncode,
        "seconds": seconds,
    }


def waits(*command: str) -> list[float]:
    """How long a user waits for a command, each time."""
    found: list[float] = []
    for _ in range(_COMMAND_TIMES):
        begin = time.monotonic()
        subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found.append(time.monotonic() - begin)
    return found


def answer_times(client: ControlClient) -> list[float]:
    """How long a program waits that asks over a connection of its own, gRPC being loaded."""
    found: list[float] = []
    for _ in range(_QUESTION_TIMES):
        begin = time.monotonic()
        client.explain(_EXPLAINED)
        found.append(time.monotonic() - begin)
    return found


def observe(node: Node, daemon: Daemon, results: Path) -> dict[str, object]:
    """Forty pods, the questions under churn, and pods that a simulation is to foretell."""
    churn = Churn(node)
    residents = {spec.name: started(node, spec) for spec in RESIDENTS}
    for _ in range(JOBS):
        churn.add()
    refuse(node, WIDE)
    say("the pods run")
    explain = ("pinfold", "explain", _EXPLAINED)
    found: dict[str, object] = {
        "cpu": _cpu_model(),
        "python_seconds": waits(sys.executable, "-c", "pass"),
    }
    bound = node.pid(residents["cache-0"], "cache")
    os.sched_setaffinity(bound, {min(os.sched_getaffinity(bound))})
    say("under churn from here on")
    with churn.going_on():
        start_in_time(node, daemon, OWN)
        found["questions"] = [
            {"words": one.words, "answers": [asked(command) for command in one.commands]}
            for one in QUESTIONS
        ]
        found["pods"] = len(node.cri.pods())
        found["command_seconds"] = waits(*explain)
        client = ControlClient(daemon.control, CALL_TIMEOUT_SECONDS)
        found["answer_seconds"] = answer_times(client)
    found["turnovers"], found["churn_failures"] = churn.turnovers, churn.failures
    time.sleep(_SETTLE_SECONDS)
    found["gather"] = asked(f"pinfold gather {results / BUNDLE_FILE}")
    for spec in LATE:
        start_in_time(node, daemon, spec)
    found["status"] = json.loads(str(asked("pinfold status -o json")["output"]))
    return found


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


def main() -> None:
    """Asks, and leaves answers.json, a support bundle and the daemon's log in the folder named."""
    results = Path(sys.argv[1])
    node = Node(Cri(NODE_FOLDER / "containerd.sock", CALL_TIMEOUT_SECONDS), cgroup_root="")
    daemon = Daemon(results, NODE_FOLDER / "nri.sock", NODE_FOLDER / "containerd.sock")
    (results / "pinfold.yaml").write_text(CONFIG + _SERVING)
    found: dict[str, object] = {"failure": None}
    try:
        make_shell()
        link_places(daemon, results / "state")
        daemon.start()
        found |= observe(node, daemon, results)
    except Exception:
        found["failure"] = traceback.format_exc()
        raise
    finally:
        (results / ANSWER_FILE).write_text(json.dumps(found, indent=1))
        daemon.kill()

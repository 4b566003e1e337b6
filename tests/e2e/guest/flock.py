"""A flock of pods in the guest, and the pins it has while the daemon is killed and restarted.

It judges nothing: the tests on the host read the observations and judge them.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Final

import grpc

from pinfold.topology.sets.cpuset import CpuSet
from tests.e2e.cri import Cri
from tests.e2e.daemon import Daemon
from tests.e2e.node import Node, RunningPod
from tests.e2e.pins import cpuset_cgroup
from tests.e2e.pods import PodSpec, best_effort, burstable, guaranteed

NODE_FOLDER: Final = Path("/run/node")
# Emulated, a pod takes seconds where it takes milliseconds elsewhere.
CALL_TIMEOUT_SECONDS: Final = 120
REST_SECONDS: Final = 1
REST_WITHIN_SECONDS: Final = 30
EVERY_CPU: Final = "0-15"
EVERY_MEMORY_NODE: Final = "0-3"
POD_OF_THE_DAEMON: Final = Path("/sys/fs/cgroup/kubepods/burstable/pod-of-the-daemon/pinfoldd")
IN_A_POD: Final = f"""\
import ctypes, os, sys
os.makedirs({str(POD_OF_THE_DAEMON)!r}, exist_ok=True)
open({str(POD_OF_THE_DAEMON / "cgroup.procs")!r}, "w").write("0")
if ctypes.CDLL(None, use_errno=True).unshare({0x02000000:#x}) != 0:
    raise OSError(ctypes.get_errno(), "unshare")
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command as the daemon of a pod is run: in a cgroup, and a namespace of cgroups, of its own
(CLONE_NEWCGROUP), with the host's cgroups mounted. Source: cgroup_namespaces(7)."""

FLOCK: Final = PodSpec(
    name="flock",
    containers=(guaranteed("peter", 1), guaranteed("sheep", 1), guaranteed("wolf", 1)),
    annotations={
        "resource-policy.nri.io/affinity": "peter: [ sheep ]\n",
        "resource-policy.nri.io/anti-affinity": "peter: [ wolf ]\n",
    },
)
MEADOW: Final = PodSpec(name="meadow", containers=(burstable("grazer", 500), best_effort("bird")))


def _others(name: str, level: str) -> str:
    """A hard rule's terms: the pod's container of this name, at a level of the machine."""
    return f"""
    requiredDuringSchedulingIgnoredDuringExecution:
    - labelSelector: {{matchLabels: {{container.name: {name}}}}}
      topologyKey: {level}
      scope: pod
"""


HARD_FLOCK: Final = PodSpec(
    name="hard-flock",
    containers=(
        guaranteed("hard-wolf", 1),
        guaranteed("hard-sheep", 1),
        guaranteed("hard-peter", 1),
    ),
    annotations={
        "affinity.pinfold.dev/container.hard-peter": (
            "podAffinity:" + _others("hard-sheep", "numa")
            + "podAntiAffinity:" + _others("hard-wolf", "socket")
        ),
        "on-unsatisfiable.pinfold.dev/pod": "fail",
    },
)  # fmt: skip
# A machine without rules would have a place for it, half of it beside the wolf.
PACK: Final = PodSpec(
    name="pack",
    containers=(guaranteed("hermit", 1), guaranteed("pack", 9)),
    annotations={
        "affinity.pinfold.dev/container.hermit": "podAntiAffinity:" + _others("pack", "socket"),
        "on-unsatisfiable.pinfold.dev/pod": "fail",
    },
)
LATE: Final = PodSpec(name="late", containers=(guaranteed("stray", 1),))


class Notebook:
    """What was seen, step by step, in a file that is whole at any time."""

    def __init__(self, path: Path, node: Node) -> None:
        self._path = path
        self._node = node
        self._pods: list[RunningPod] = []
        self._steps = dict[str, dict[str, dict[str, str]]]()
        self._refusals = dict[str, str]()
        self._began = time.monotonic()

    def add(self, spec: PodSpec) -> RunningPod:
        """Starts a pod that later steps look at."""
        pod = self._node.start_pod(spec)
        self._pods.append(pod)
        return pod

    def add_refused(self, spec: PodSpec) -> None:
        """Writes down what the runtime says when it is asked to start a pod; it must not start."""
        try:
            self._node.start_pod(spec)
        except grpc.RpcError as error:
            self._refusals[spec.name] = str(error)

    def end(self, pod: RunningPod) -> None:
        """Ends a pod."""
        self._pods.remove(pod)
        self._node.end_pod(pod)

    def note(self, step: str) -> None:
        """Writes down the pins of every running container, when they have come to rest.

        The runtime applies some updates after it has answered.
        """
        until = time.monotonic() + REST_WITHIN_SECONDS
        before, now = None, self._pins()
        while before != now and time.monotonic() < until:
            time.sleep(REST_SECONDS)
            before, now = now, self._pins()
        self._steps[step] = now
        print(f"{time.monotonic() - self._began:6.1f} s  {step}", flush=True)
        self.write(failure=None)

    def look(self, step: str) -> None:
        """Writes down the pins of every running container as they are at this moment."""
        self._steps[step] = self._pins()

    def wait_for_change(self, step: str) -> None:
        """Returns when the pins are not those of this step any more, or after a long while."""
        until = time.monotonic() + REST_WITHIN_SECONDS
        while self._pins() == self._steps[step] and time.monotonic() < until:
            time.sleep(0.2)

    def wait_for(self, step: str) -> None:
        """Returns when the pins are those of this step again, or after a long while."""
        until = time.monotonic() + REST_WITHIN_SECONDS
        while self._pins() != self._steps[step] and time.monotonic() < until:
            time.sleep(REST_SECONDS)

    def _pins(self) -> dict[str, dict[str, str]]:
        return {
            name: dataclasses.asdict(self._node.pins(pod, name))
            for pod in self._pods
            for name in pod.containers
        }

    def write(self, failure: str | None) -> None:
        """Writes all steps to the file."""
        seen = {"steps": self._steps, "refusals": self._refusals, "failure": failure}
        self._path.write_text(json.dumps(seen, indent=1))


def draw_machine(path: Path) -> None:
    """Writes down the machine as the project's own discovery sees it."""
    command = [sys.executable, "-m", "pinfold.cmd.pinfold", "topology", "-o", "json"]
    path.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def audit_threads(path: Path, control: Path) -> None:
    """Writes down what an operator is told of pins and of bound threads."""
    command = [
        *(sys.executable, "-m", "pinfold.cmd.pinfold", "audit", "--threads", "-o", "json"),
        *("--control", str(control)),
    ]
    path.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def ask_status(path: Path, control: Path) -> None:
    """Writes down what an operator is told of the node."""
    command = [
        *(sys.executable, "-m", "pinfold.cmd.pinfold", "status", "-o", "json"),
        *("--control", str(control)),
    ]
    path.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def interfere(notebook: Notebook, node: Node, flock: RunningPod) -> None:
    """A foreign program gives peter the sheep's and the wolf's memory, and the wolf all cpus."""
    peter, wolf = (cpuset_cgroup(node.pid(flock, name)) for name in ("peter", "wolf"))
    (peter / "cpuset.mems").write_text(EVERY_MEMORY_NODE)
    (wolf / "cpuset.cpus").write_text(EVERY_CPU)
    notebook.look("foreign writer")
    notebook.wait_for("flock came")
    notebook.note("foreign writer undone")


def observe(notebook: Notebook, node: Node, daemon: Daemon, results: Path) -> None:
    """One daemon's life: pods come, the daemon dies, a pod comes meanwhile, pods go."""
    daemon.start()
    meadow = notebook.add(MEADOW)
    notebook.note("meadow alone")
    flock = notebook.add(FLOCK)
    notebook.note("flock came")
    interfere(notebook, node, flock)
    grazer = node.pid(meadow, "grazer")
    os.sched_setaffinity(grazer, {min(os.sched_getaffinity(grazer))})
    audit_threads(results / "audit.json", daemon.control)
    os.sched_setaffinity(grazer, CpuSet.parse(EVERY_CPU))
    daemon.kill()
    notebook.note("daemon killed")
    late = notebook.add(LATE)
    notebook.note("stray came while the daemon was down")
    daemon.start()
    notebook.wait_for_change("stray came while the daemon was down")
    notebook.note("daemon back")
    notebook.end(late)
    notebook.end(flock)
    notebook.note("flock gone")
    hard_flock = notebook.add(HARD_FLOCK)
    notebook.note("hard flock came")
    notebook.add_refused(PACK)
    notebook.note("pack refused")
    daemon.kill()
    daemon.prefix = (sys.executable, "-c", IN_A_POD)
    daemon.start()
    notebook.note("daemon back to the hard flock")
    ask_status(results / "status.json", daemon.control)
    notebook.end(hard_flock)
    notebook.note("hard flock gone")
    daemon.stop()
    notebook.note("daemon stopped")


def main() -> None:
    """Observes and leaves observations.json and the daemon's log in the folder named."""
    results = Path(sys.argv[1])
    node = Node(Cri(NODE_FOLDER / "containerd.sock", CALL_TIMEOUT_SECONDS), cgroup_root="")
    notebook = Notebook(results / "observations.json", node)
    daemon = Daemon(results, NODE_FOLDER / "nri.sock", NODE_FOLDER / "containerd.sock")
    try:
        draw_machine(results / "topology.json")
        observe(notebook, node, daemon, results)
    except Exception:
        notebook.write(failure=traceback.format_exc())
        raise
    finally:
        daemon.kill()

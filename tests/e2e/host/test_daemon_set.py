"""The daemon in a pod, as configs/kubernetes/pinfold.yaml has it, on the runtime that it serves."""

import json
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from pinfold.topology.sets.cpuset import CpuSet
from tests.e2e import daemon_image
from tests.e2e.agreement import eventually
from tests.e2e.containerd import Containerd
from tests.e2e.manifest_pod import ManifestPod
from tests.e2e.node import Node
from tests.e2e.pods import PodSpec, best_effort, guaranteed

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("nri_alone")]

MANIFEST: Final = daemon_image.ROOT / "configs/kubernetes/pinfold.yaml"
READY_WITHIN_SECONDS: Final = 60.0
PORT: Final = 8891


@dataclass
class DaemonPod:
    """The pod of the daemon on a node, and what a person would do with it."""

    node: Node
    containerd: Containerd
    pod: ManifestPod
    config: Path
    sandbox: str = ""
    container: str = ""
    attempt: int = field(default=-1)

    def run(self) -> None:
        """Starts the pod, or its container again."""
        cri, sandbox_config = self.node.cri, self.pod.sandbox_config()
        if not self.sandbox:
            self.sandbox = cri.run_pod(sandbox_config)
        self.attempt += 1
        made = self.pod.container_config(self.attempt)
        self.container = cri.create_container(self.sandbox, made, sandbox_config)
        cri.start_container(self.container)

    def is_ready(self) -> bool:
        """What the probes of the kubelet ask."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=2) as answer:
                return int(answer.status) == 200
        except (urllib.error.URLError, OSError):
            return False

    def log(self) -> str:
        """What the container has written so far."""
        return (self.pod.logs / f"pinfoldd-{self.attempt}.log").read_text()

    def execute(self, *command: str) -> str:
        """What a command prints inside, as with `kubectl exec`."""
        options = ("-n", "k8s.io", "tasks", "exec", "--exec-id", f"ask-{os.urandom(4).hex()}")
        done = self.containerd.ctr(*options, self.container, *command, seconds=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> Any:
        """What an operator is told inside."""
        return json.loads(self.execute("pinfold", "status", "-o", "json"))


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of the daemon."""
    reason = daemon_image.missing()
    if reason:
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("image") / "pinfold.tar"
    daemon_image.write_archive(path)
    return path


@pytest.fixture
def daemon_pod(
    archive: Path,
    containerd: Containerd,
    node: Node,
    cgroup_root: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> DaemonPod:
    """The daemon that a node's kubelet has started, ready.

    With a parameter, the host's root is mounted there and is what the daemon looks at.
    """
    if not node.direct.has_image(daemon_image.NAME):
        containerd.import_image(archive)
    config_map, daemon_set = yaml.safe_load_all(MANIFEST.read_text())
    host = getattr(request, "param", None)
    if host is not None:
        (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
        container["args"].append(f"--sysfs-root={host}")
        mount = {"name": "host", "mountPath": host, "readOnly": True}
        container["volumeMounts"].append(mount)
    for name in ("state", "run", "pod-resources", "logs", "config"):
        (tmp_path / name).mkdir()
    pod = ManifestPod(
        workload=daemon_set,
        cgroup_parent=f"/{cgroup_root}/kubepods/burstable/pod-of-the-daemon",
        logs=tmp_path / "logs",
        volumes={
            "cgroup": Path("/sys/fs/cgroup"),
            "config": tmp_path / "config",
            "containerd": containerd.folder,
            "host": Path("/"),
            "pod-resources": tmp_path / "pod-resources",
            "nri": containerd.folder,
            "run": tmp_path / "run",
            "state": tmp_path / "state",
        },
    )
    started = DaemonPod(node, containerd, pod, tmp_path / "config")
    write_config_map(started.config, config_map["data"], 1)
    started.run()
    assert eventually(started.is_ready, READY_WITHIN_SECONDS), started.log()
    return started


def write_config_map(folder: Path, data: dict[str, str], generation: int) -> None:
    """Writes a mounted ConfigMap as the kubelet does: behind a link that is switched at once."""
    fresh = folder / f"..{generation}"
    fresh.mkdir()
    for name, text in data.items():
        (fresh / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data_tmp").symlink_to(fresh.name)
    (folder / "..data_tmp").rename(folder / "..data")


def cpus(pid: int) -> CpuSet:
    """The cpus that the kernel lets a process run on."""
    text = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("Cpus_allowed_list"))
    return CpuSet.parse(line.split()[1])


@pytest.mark.parametrize(
    "daemon_pod",
    [
        pytest.param(None, id="with what the manifest mounts"),
        pytest.param("/host", id="with the root of the host"),
    ],
    indirect=True,
)
def test_the_daemon_in_a_pod_places_containers_and_sees_what_the_kernel_has(
    node: Node, daemon_pod: DaemonPod
) -> None:
    alone = node.start_pod(PodSpec(name="alone", containers=(guaranteed("owner", 1),)))
    shared = node.start_pod(PodSpec(name="shared", containers=(best_effort("other"),)))
    own = cpus(node.pid(alone, "owner"))
    assert len(own) == 1
    assert own.isdisjoint(cpus(node.pid(shared, "other")))
    by_name = {one["container"]: one for one in daemon_pod.status()["containers"]}
    status = Path(f"/proc/{node.direct.pid(daemon_pod.container)}/status").read_text()
    assert re.search(r"^CapEff:\s*0+$", status, re.MULTILINE), status
    assert re.search(r"^Seccomp:\s*2$", status, re.MULTILINE), status
    owner = by_name["default/alone/owner"]
    assert owner["kernel"] == owner["intended"]
    assert owner["kernel"]["cpus"] == str(own)


def test_it_pins_itself_to_the_reserved_cpus(node: Node, daemon_pod: DaemonPod) -> None:
    def its_own() -> Any:
        (own,) = (
            one
            for one in daemon_pod.status()["containers"]
            if one["container"].startswith("kube-system/pinfold-")
        )
        return own

    assert eventually(lambda: its_own()["kernel"] == its_own()["intended"])
    assert its_own()["kind"] == "reserved"
    assert str(cpus(node.direct.pid(daemon_pod.container))) == its_own()["intended"]["cpus"]


def test_a_changed_config_map_is_applied_without_a_restart(daemon_pod: DaemonPod) -> None:
    changed = "reservedResources:\n  cpu: 1500m\ninstrumentation:\n  httpEndpoint: 127.0.0.1:8891\n"
    write_config_map(daemon_pod.config, {"pinfold.yaml": changed}, 2)
    assert eventually(lambda: "event=reconfigured" in daemon_pod.log()), daemon_pod.log()


def test_a_restart_of_its_container_moves_nobody(node: Node, daemon_pod: DaemonPod) -> None:
    alone = node.start_pod(PodSpec(name="alone", containers=(guaranteed("owner", 1),)))
    own = cpus(node.pid(alone, "owner"))
    node.cri.stop_container(daemon_pod.container)
    daemon_pod.run()
    assert eventually(daemon_pod.is_ready, READY_WITHIN_SECONDS), daemon_pod.log()
    assert cpus(node.pid(alone, "owner")) == own
    late = node.start_pod(PodSpec(name="late", containers=(best_effort("newcomer"),)))
    assert own.isdisjoint(cpus(node.pid(late, "newcomer")))
    assert " WARNING " not in daemon_pod.log()

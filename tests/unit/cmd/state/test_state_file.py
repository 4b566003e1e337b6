"""The file of a state: the same bytes, whether made anew or of what is kept from the last time."""

import logging
import os
import random
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pinfold.cmd.state.saved_container import SavedPod
from pinfold.cmd.state.saved_states import SavedStates
from pinfold.cmd.state.state_file import State, StateFile, load_state
from pinfold.nri.dispatch.pacer import Pacer
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.engine.snapshot import Snapshot
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import NO_CPUS, CpuSet

LOG = logging.getLogger("test_state_file")
MACHINE = machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:8G")
CONFIG = Config(reserved_resources=Amounts(cpu="cpuset:0"))
TEXT_BYTES_MAX = 6000
STEPS = 400


class Node:
    """Containers that come, change and go by chance, some of them with long texts."""

    def __init__(self, seed: int) -> None:
        self.engine = Engine(MACHINE, CONFIG)
        self._chance = random.Random(seed)
        self._pods: list[Pod] = []
        self._count = 0

    def step(self) -> None:
        """One event."""
        chance = self._chance
        known = list(self.engine.containers)
        some = chance.choice(known) if known else ContainerId("none")
        event = chance.randrange(21)
        if event == 20:
            self.engine.stuck_containers.note({some: MACHINE.online})
        elif event < 9:
            self.engine.create(self._container())
        elif event < 11:
            self.engine.update(some, self._resources())
        elif event == 11:
            self.engine.start(some)
        elif event < 14:
            self.engine.stop(some)
        elif event < 17:
            self.engine.remove(some)
        elif event == 17:
            nodes = range(len(MACHINE.numa_nodes))
            self.engine.observe_memory({one: chance.randrange(8 << 30) for one in nodes})
        elif event == 18:
            before = self.engine.snapshot()
            pin_cpu, colocate = chance.random() < 0.5, chance.random() < 0.5
            config = msgspec.structs.replace(CONFIG, pin_cpu=pin_cpu, colocate_pods=colocate)
            self.engine = Engine(MACHINE, config)
            self.engine.take_over(before)
        else:
            snapshot = self.engine.snapshot()
            self.engine = Engine(MACHINE, self.engine.config)
            self.engine.synchronize(snapshot.running(), snapshot.advice())

    def _container(self) -> Container:
        self._count += 1
        name = f"c{self._count}"
        return Container(
            id=ContainerId(f"{self._chance.randrange(1 << 32):08x}-{name}"),
            name=name,
            pod=self._pod(),
            labels={"b": "x" * self._text(), "a": "\x01" * self._text()},
            resources=self._resources(),
        )

    def _pod(self) -> Pod:
        if self._pods and self._chance.random() < 0.5:
            pod = self._chance.choice(self._pods)
            # A pod that is told of again, now and then with other texts.
            if self._chance.random() < 0.3:
                pod = replace(pod, labels={"y": "z" * self._text()})
            return pod
        name = f"p{self._chance.randrange(1 << 32):08x}"
        annotations = {"affinity.resource-policy.nri.io/pod": "\N{SNOWMAN}" * self._text(), "a": ""}
        pod = Pod(id=PodId(name), name=name, annotations=annotations, qos=QosClass.BURSTABLE)
        self._pods.append(pod)
        return pod

    def _text(self) -> int:
        return self._chance.choice((0, 0, 10, 100, 1000, 5000))

    def _resources(self) -> Resources:
        milli = self._chance.choice((0, 100, 500, 1000, 2000))
        hugepages = {2 << 20: 4 << 20, 1 << 30: 1 << 30} if self._chance.random() < 0.2 else {}
        return Resources(
            cpu_request_milli=milli,
            cpu_limit_milli=milli or None,
            memory_request_bytes=1 << 20,
            hugepage_bytes=hugepages,
        )


def walk(seed: int) -> Iterator[Snapshot]:
    node = Node(seed)
    for _ in range(STEPS):
        node.step()
        yield node.engine.snapshot()


def anew(state: State) -> bytes:
    """The file of a state, encoded as a whole."""
    content = msgspec.json.encode(msgspec.to_builtins(state, str_keys=True), order="sorted")
    checksum = f"{zlib.crc32(content):08x}-{len(content)}"
    file = {
        "version": 4,
        "is_final": False,
        "checksum": checksum,
        "state": msgspec.Raw(content),
    }
    return msgspec.json.encode(file)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_changes_no_byte_of_the_file(tmp_path: Path, seed: int) -> None:
    states, file = SavedStates(TEXT_BYTES_MAX), StateFile(tmp_path, LOG)
    cut: set[bool] = set()
    for snapshot in walk(seed):
        file.write(states.of(snapshot))
        fresh = SavedStates(TEXT_BYTES_MAX).of(snapshot)
        assert (tmp_path / "state.json").read_bytes() == anew(fresh)
        running = {one.id: (one.cpus, one.mems) for one in snapshot.running()}
        assert {one.id: (one.cpus, one.mems) for one in fresh.running()} == running
        # Labels are texts, too.
        bare = {one.id for pod in fresh.pods if pod.is_cut for one in pod.containers}
        advice = {
            one: replace(known, labels=None) if one in bare else known
            for one, known in snapshot.advice().items()
        }
        assert fresh.advice() == advice
        cut |= {pod.is_cut for pod in fresh.pods}
    assert cut == {False, True}


def test_labels_of_the_first_sight_are_saved_for_each_container_of_a_pod() -> None:
    engine = Engine(MACHINE, CONFIG)
    for name, rev in (("one", "3"), ("two", "4")):
        pod = Pod(id=PodId("pod"), name="pod", labels={"rev": rev}, qos=QosClass.BURSTABLE)
        engine.create(Container(id=ContainerId(name), name=name, pod=pod))
    snapshot = engine.snapshot()
    assert {one: known.labels for one, known in snapshot.advice().items()} == {
        "one": {"rev": "3"},
        "two": {"rev": "4"},
    }
    edited = Pod(id=PodId("pod"), name="pod", labels={"rev": "5"}, qos=QosClass.BURSTABLE)
    for _ in range(2):
        saved = SavedStates().of(snapshot)
        assert saved.advice() == snapshot.advice()
        running = {one.id: one.pod.labels_at_first_sight["rev"] for one in saved.running()}
        assert running == {"one": "3", "two": "4"}
        listed = [replace(one, pod=edited) for one in snapshot.running()]
        engine = Engine(MACHINE, CONFIG)
        engine.synchronize(listed, saved.advice())
        snapshot = engine.snapshot()


def test_pods_to_which_nothing_happened_are_the_same_objects() -> None:
    engine = Engine(MACHINE, CONFIG)
    states = SavedStates()
    for name, milli in (("one", 1000), ("two", 2000), ("three", 2000)):
        engine.create(
            Container(
                id=ContainerId(name),
                name=name,
                pod=Pod(id=PodId(name), name=name, qos=QosClass.GUARANTEED),
                resources=Resources(cpu_request_milli=milli, cpu_limit_milli=milli),
            )
        )
    before = {pod.id: pod for pod in states.of(engine.snapshot()).pods}
    engine.start(ContainerId("two"))
    engine.remove(ContainerId("three"))
    after = states.of(engine.snapshot())
    assert {pod.id: pod is before[pod.id] for pod in after.pods} == {"one": True, "two": False}
    assert states.of(engine.snapshot()).config is after.config


def test_a_container_of_which_the_cpus_alone_changed_is_otherwise_as_it_was_saved() -> None:
    engine, states = Engine(MACHINE, CONFIG), SavedStates()

    def start(name: str, resources: Resources) -> None:
        pod = Pod(id=PodId(name), name=name, qos=QosClass.GUARANTEED)
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))

    start("shared", Resources(cpu_request_milli=100))
    (before,) = states.of(engine.snapshot()).pods[0].containers
    for number in range(4):
        start(f"own{number}", Resources(cpu_request_milli=2000, cpu_limit_milli=2000))
    saved = {one.id: one for pod in states.of(engine.snapshot()).pods for one in pod.containers}
    after = saved["shared"]
    assert after.cpus != before.cpus
    assert replace(after, cpus=before.cpus) == before
    assert after.resources is before.resources


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param({}, id="none"),
        pytest.param({"": ""}, id="an empty one"),
        pytest.param({chr(one): "" for one in range(1, 128)}, id="short keys without values"),
        pytest.param({"\x01\x02": 1000 * "\x03"}, id="characters that are escaped"),
        pytest.param({"\N{SNOWMAN}": 1000 * "\N{GOAT}"}, id="characters of several bytes"),
    ],
)
def test_texts_are_saved_to_the_last_byte_of_their_room(texts: dict[str, str]) -> None:
    engine = Engine(MACHINE, CONFIG)
    pod = Pod(id=PodId("pod"), name="pod", labels=texts, first_labels={"first": ""} | texts)
    for name in ("one", "two"):
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, labels=texts))
    snapshot = engine.snapshot()
    (whole,), (bare,) = SavedStates().of(snapshot).pods, SavedStates(-1).of(snapshot).pods
    assert (whole.is_cut, bare.is_cut) == (False, True)
    room = len(msgspec.json.encode(whole)) - len(msgspec.json.encode(bare))
    assert [SavedStates(room - less).of(snapshot).pods[0].is_cut for less in (0, 1)] == [
        False,
        True,
    ]


def test_what_was_not_looked_at_for_a_fault_is_looked_at_the_next_time() -> None:
    """Wherever the look ended: nothing is missing, and nothing is there that is gone."""
    for number in range(1, 13):
        left = [10**6]

        def clock(left: list[int] = left) -> float:
            left[0] -= 1
            if not left[0]:
                raise RuntimeError("a fault of ours")
            return 0.0

        node, states, pacer = Node(1), SavedStates(), Pacer(lambda: False, clock)
        for _ in range(10):
            node.step()
        states.of(node.engine.snapshot(), pacer)
        for container_id in list(node.engine.containers)[:2]:
            node.engine.remove(container_id)
        for name in ("one", "two", "three"):
            pod = Pod(id=PodId(name), name=name, qos=QosClass.BURSTABLE)
            node.engine.create(Container(id=ContainerId(name), name=name, pod=pod))
        snapshot = node.engine.snapshot()
        left[0] = number
        with suppress(RuntimeError):
            states.of(snapshot, pacer)
        left[0] = 10**6
        assert anew(states.of(snapshot, pacer)) == anew(SavedStates().of(snapshot)), number


def inode(folder: Path) -> int:
    return (folder / "state.json").stat().st_ino


def test_the_same_state_is_not_written_again(tmp_path: Path) -> None:
    states, file, engine = SavedStates(), StateFile(tmp_path, LOG), Engine(MACHINE, CONFIG)
    file.write(states.of(engine.snapshot()))
    before = inode(tmp_path)
    file.write(states.of(engine.snapshot()))
    assert inode(tmp_path) == before
    engine.create(Container(id=ContainerId("c"), name="c", pod=Pod(id=PodId("p"), name="p")))
    file.write(states.of(engine.snapshot()))
    assert inode(tmp_path) != before


@pytest.mark.parametrize("harm", ["gone", "changed", "replaced"])
def test_a_file_that_is_not_as_it_was_left_is_written_again(tmp_path: Path, harm: str) -> None:
    state, file, path = State(), StateFile(tmp_path, LOG), tmp_path / "state.json"
    file.write(state)
    if harm == "gone":
        path.unlink()
    elif harm == "changed":
        path.write_bytes(path.read_bytes().replace(b"3", b"4"))
        os.utime(path, ns=(1, 1))
    else:
        (tmp_path / "other").write_bytes(b"x")
        (tmp_path / "other").rename(path)
    file.write(state)
    assert load_state(path) == state


def test_first_labels_of_many_containers_leave_no_other_pod_without_its_texts() -> None:
    engine, long = Engine(MACHINE, CONFIG), {"a": 1000 * "x"}
    edited = Pod(id=PodId("edited"), name="edited", labels={"a": "x"}, first_labels=long)
    other = Pod(id=PodId("other"), name="other", labels=long)
    for number in range(10):
        name = f"c{number}"
        engine.create(Container(id=ContainerId(name), name=name, pod=edited))
    engine.create(Container(id=ContainerId("other"), name="other", pod=other))
    pods = SavedStates(TEXT_BYTES_MAX).of(engine.snapshot()).pods
    assert {one.id: one.is_cut for one in pods} == {"edited": True, "other": False}


def test_a_file_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    file = StateFile(folder, LOG)
    with pytest.raises(FileNotFoundError):
        file.write(State())
    folder.mkdir()
    file.write(State())
    assert load_state(folder / "state.json") == State()


def test_a_container_is_saved_under_the_id_that_its_runtime_gave_it_later() -> None:
    states, engine = SavedStates(), Engine(MACHINE, CONFIG)
    engine.create(Container(id=ContainerId("p/c/0"), name="c", pod=Pod(id=PodId("p"), name="p")))
    assert [one.id for one in states.of(engine.snapshot()).running()] == ["p/c/0"]
    engine.identify(ContainerId("p/c/0"), "0123abcd")
    assert [one.id for one in states.of(engine.snapshot()).running()] == ["0123abcd"]
    assert states.of(engine.snapshot()).advice().keys() == {"0123abcd"}


def test_whom_a_runtime_does_not_move_is_saved_and_an_older_file_tells_of_none() -> None:
    states, engine = SavedStates(), Engine(MACHINE, CONFIG)
    one, cpus = ContainerId("p/c/0"), CpuSet.parse("2-5")
    engine.create(Container(id=one, name="c", pod=Pod(id=PodId("p"), name="p")))
    assert states.of(engine.snapshot()).stuck == {}
    engine.stuck_containers.note({one: cpus})
    engine.identify(one, "0123abcd")
    state = states.of(engine.snapshot())
    assert state.advice()[ContainerId("0123abcd")].stuck == cpus
    fields = {**msgspec.to_builtins(state, str_keys=True)}
    del fields["stuck"]
    assert msgspec.convert(fields, State).advice()[ContainerId("0123abcd")].stuck == NO_CPUS


def test_the_version_before_reads_a_file_that_tells_of_stuck_containers(tmp_path: Path) -> None:
    class StateBefore(msgspec.Struct, frozen=True, kw_only=True):
        """A state as that version knows it, which has the same number."""

        pods: tuple[SavedPod, ...] = ()

    StateFile(tmp_path, LOG).write(State(stuck={"c": "2-5"}))
    file = msgspec.json.decode((tmp_path / "state.json").read_bytes())
    assert file["version"] == 4
    assert msgspec.convert(file["state"], StateBefore) == StateBefore()

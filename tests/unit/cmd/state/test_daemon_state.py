import hashlib
import logging
import os
import queue
import shutil
from collections.abc import Callable, Generator, Mapping
from logging.handlers import QueueHandler
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.daemon_reports import DaemonReports
from pinfold.cmd.state.own_file import BYTES_MAX
from pinfold.cmd.state.saved_container import (
    PlacedContainer,
    SavedContainer,
    SavedPod,
    SavedResources,
    saved_container,
)
from pinfold.cmd.state.saved_pods import TEXT_BYTES_MAX, SavedPods
from pinfold.cmd.state.saved_states import SavedStates, saved_machine
from pinfold.cmd.state.state_file import (
    SavedMachine,
    State,
    StateFile,
    StateFileError,
    load_state,
    read_state,
)
from pinfold.cmd.state.state_folder import StateFolderInUseError, claim_folder
from pinfold.cmd.state.state_keeper import StateKeeper
from pinfold.nri.dispatch.report import Fanout, Synchronized, Unmoved
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import container_message, sandbox_message, start_pods
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import config_from_values
from pinfold.policy.engine.advice import Advice
from pinfold.policy.engine.engine import Engine
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.model.grant import Grant, PoolId
from pinfold.policy.model.hint import Hint, HintOrigin
from pinfold.policy.model.request import CpuType
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sets.cpuset import CpuSet, NodeSet
from tests.unit.cmd.daemon.paper_node import PATIENT
from tests.unit.cmd.overtaken_event import SECONDS, OvertakenEvent
from tests.unit.nri.plugin.session_node import eventually
from tests.unit.policy.engine.ruled_pods import container_of, near, term

LOG = logging.getLogger("test_daemon_state")
MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
STATE = State(
    machine=SavedMachine(summary="cpus 0-7", fingerprint="f00"),
    config={"pinCPU": True},
    pods=(
        SavedPod(
            id="p1",
            name="web",
            namespace="default",
            qos=QosClass.GUARANTEED,
            containers=(
                SavedContainer(
                    id="c1",
                    name="main",
                    cpus="1-3",
                    pool="socket #0",
                    exclusive="1-2",
                    grown=("1", "2"),
                ),
            ),
        ),
    ),
)


def with_container(**fields: object) -> State:
    """The state with other fields of its container."""
    (pod,) = STATE.pods
    one = msgspec.structs.replace(pod.containers[0], **fields)
    return msgspec.structs.replace(STATE, pods=(msgspec.structs.replace(pod, containers=(one,)),))


def whole(cpus: int) -> Resources:
    """Whole cpus, as a Guaranteed container asks for them."""
    return Resources(
        cpu_request_milli=1000 * cpus,
        cpu_limit_milli=1000 * cpus,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )


def mixed(name: str) -> PodSpec:
    """A pod with one container of one exclusive cpu and a half of the shared ones."""
    resources = Resources(
        cpu_request_milli=1500,
        cpu_limit_milli=1500,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )
    return PodSpec(
        name=name,
        qos=QosClass.GUARANTEED,
        containers=(ContainerSpec(name=name, resources=resources),),
    )


Run = Callable[[EmbeddedRuntime], Daemon]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Generator[Run]:
    """Runs a daemon with a state file, which is complete once the daemon was stopped."""
    running: list[tuple[Daemon, StateKeeper]] = []

    def stop() -> None:
        while running:
            daemon, keeper = running.pop()
            keeper.stop()
            daemon.stop()

    def run(runtime: EmbeddedRuntime) -> Daemon:
        stop()
        keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
        daemon = Daemon(
            MACHINE, Config(), embedded_link(runtime), reports=(keeper,), timing=PATIENT
        )
        running.append((daemon, keeper))
        daemon.front.events.advice = read_state(tmp_path, LOG).advice()
        keeper.start(daemon.front)
        daemon.start()
        assert runtime.wait_until_synchronized(5)
        assert daemon.front.wait_until_ready(5)
        assert daemon.front.settle()
        return daemon

    yield run
    stop()


def exclusive_cpus(daemon: Daemon) -> Mapping[str, CpuSet]:
    return {one: grant.exclusive for one, grant in daemon.engine.grants.items()}


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    StateFile(tmp_path, LOG).write(STATE)
    assert read_state(tmp_path, LOG) == STATE
    assert STATE.advice() == {
        ContainerId("c1"): Advice(
            pool="socket #0",
            exclusive=CpuSet.of(1, 2),
            grown=(CpuSet.of(1), CpuSet.of(2)),
            labels={},
            cpu_request_milli=0,
        )
    }
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600


def test_what_rules_left_of_a_pool_is_remembered() -> None:
    grant = Grant(container_id=ContainerId("c"), pool_id=PoolId(0), within=CpuSet.of(1, 2))
    pod = Pod(id=PodId("p"), name="p")
    tree = Engine(MACHINE, Config()).tree
    placed = PlacedContainer(
        container=Container(id=ContainerId("c"), name="c", pod=pod),
        grant=grant,
        pool=tree.root,
        cpus=CpuSet.of(1, 2),
        mems=None,
    )
    expected = Advice.of(grant, tree.root, cpu_request_milli=0)
    assert saved_container(placed, with_texts=True).advice() == expected


def test_a_pen_and_the_size_of_a_pod_are_remembered() -> None:
    size = Resources(cpu_request_milli=4000, cpu_limit_milli=4000, memory_limit_bytes=1 << 30)
    pod = Pod(id=PodId("p"), name="p", resources=size)
    container = Container(id=ContainerId("c"), name="c", pod=pod)
    grant = Grant(
        container_id=container.id,
        pool_id=PoolId(0),
        cpu_type=CpuType.PEN,
        exclusive=CpuSet.of(1),
        pen=ContainerId("pod p"),
        rest=CpuSet.of(2, 3),
    )
    larger = structs.replace(size, cpu_request_milli=6000, cpu_limit_milli=6000)
    node = PlacedContainer(container, CpuSet.of(1), None, grant, POOL, pod_size=larger)
    (saved,) = SavedPods().follow([node], ())
    (again,) = saved.containers
    assert again.advice() == Advice.of(grant, POOL, pod_size=larger, cpu_request_milli=0)
    assert again.advice().is_penned
    assert next(saved.running()).pod.resources == size


def test_rules_that_do_not_hold_are_remembered_as_far_as_they_are_short() -> None:
    grant = Grant(container_id=ContainerId("c"), pool_id=PoolId(0))
    container = Container(id=ContainerId("c"), name="c", pod=Pod(id=PodId("p"), name="p"))
    told = ("pool-name 'x' of p/c: it wants pool x", "one\ud800", "x" * 5000)
    node = PlacedContainer(container, CpuSet.of(1), None, grant, POOL, told)
    assert saved_container(node, with_texts=True).advice().unmet == told[:1]
    assert saved_container(node, with_texts=False).advice().unmet == ()


def test_the_cpus_that_were_not_reserved_are_remembered(tmp_path: Path) -> None:
    engine = Engine(MACHINE, Config())
    engine.create(Container(id=ContainerId("c"), name="c", pod=Pod(id=PodId("p"), name="p")))
    snapshot = engine.snapshot()
    StateFile(tmp_path, LOG).write(SavedStates().of(snapshot))
    advice = read_state(tmp_path, LOG).advice()
    assert advice == snapshot.advice()
    assert advice[ContainerId("c")].usable == snapshot.supply.usable


def test_cpus_that_are_kept_shared_are_remembered_under_the_same_configuration(
    tmp_path: Path,
) -> None:
    engine = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    friend, owner = container_of("friend"), container_of("owner", 1, near(term("numa", "friend")))
    engine.create(friend)
    engine.create(owner)
    kept = engine.grants[owner.id].beside
    assert kept
    states = SavedStates()
    StateFile(tmp_path, LOG).write(states.of(engine.snapshot()))
    state = read_state(tmp_path, LOG)
    assert state.advice(engine.config) == state.advice() == engine.snapshot().advice()
    assert state.advice()[owner.id].beside == kept
    other = structs.replace(engine.config, pin_memory=False)
    assert state.advice(other)[owner.id].beside is None
    # Earlier versions wrote nothing of it.
    fields = {**msgspec.to_builtins(state, str_keys=True)}
    del fields["knows_beside"]
    assert msgspec.convert(fields, State).advice()[owner.id].beside is None
    engine.remove(friend.id)
    assert states.of(engine.snapshot()).advice()[owner.id].beside == ()


def test_all_cpus_of_a_pen_are_remembered_of_each_of_its_containers() -> None:
    engine = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    pod = Pod(
        id=PodId("p"),
        name="p",
        qos=QosClass.GUARANTEED,
        resources=whole(5),
        annotations={"pod-pool.pinfold.dev/pod": "true"},
    )
    for name, cpus in (("a", 2), ("b", 2), ("c", 1)):
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=whole(cpus)))
    advice = SavedStates().of(engine.snapshot()).advice()
    assert advice == engine.snapshot().advice()
    assert [len(one.pen) for one in advice.values()] == [5, 5, 5]


def test_the_cpus_of_a_pen_are_not_remembered_of_whom_a_group_lets_share() -> None:
    """Nothing of a pod's pen need be shared, and then what is told of both looks the same."""
    engine = Engine(MACHINE, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    half = structs.replace(whole(1), cpu_request_milli=500, cpu_limit_milli=500)
    first = Pod(id=PodId("q"), name="q", annotations={"group.pinfold.dev/pod": "g"})
    first = structs.replace(first, qos=QosClass.BURSTABLE)
    engine.create(Container(id=ContainerId("q"), name="q", pod=first, resources=half))
    wishes = {"pod-pool.pinfold.dev/pod": "true", "group.pinfold.dev/container.b": "g"}
    pod = Pod(id=PodId("p"), name="p", qos=QosClass.GUARANTEED, resources=whole(2))
    pod = structs.replace(pod, annotations=wishes)
    for name, size in (("a", whole(1)), ("c", whole(1)), ("b", half)):
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=size))
    advice = SavedStates().of(engine.snapshot()).advice()
    assert advice == engine.snapshot().advice()
    assert [one for one, known in advice.items() if known.pen] == ["a", "c"]


def test_what_one_asked_for_whose_resize_is_missed_is_remembered_until_that_is_made() -> None:
    machine = machine_from_spec("socket:1 core:4")
    engine = Engine(machine, Config(reserved_resources=Amounts(cpu="cpuset:0")))
    owner, other = container_of("owner", 1), container_of("other", 1)
    for one in (owner, other):
        engine.create(one)
    before, states = engine.snapshot(), SavedStates()
    running = {one.id: one for one in before.running()}
    more = structs.replace(running[owner.id], resources=whole(2))
    engine.synchronize([more, running[other.id]], before.advice())
    assert engine.missed_resizes.misses(owner.id)
    for milli in (1000, 2000):
        advice = states.of(engine.snapshot()).advice()
        assert advice == engine.snapshot().advice()
        assert advice[owner.id].cpu_request_milli == milli
        engine.stop(other.id)
        engine.missed_resizes.make(owner.id)


def test_another_pen_is_saved_where_other_cpus_are_kept_shared_for_it() -> None:
    """Its containers hold the same."""
    engine = Engine(MACHINE, Config())
    owner = container_of("owner", 1, annotations={"group.pinfold.dev/pod": "front"})
    engine.create(owner)
    states, snapshot = SavedStates(), engine.snapshot()
    assert states.of(snapshot).advice()[owner.id].beside == ()
    kept = (CpuSet.of(1, 2),)
    pens = {one: structs.replace(pen, beside=kept) for one, pen in snapshot.pens.items()}
    after = states.of(structs.replace(snapshot, pens=pens))
    assert after.advice()[owner.id].beside == kept


def test_numbers_may_be_keys(tmp_path: Path) -> None:
    resources = SavedResources(hugepage_bytes={2 << 20: 4 << 20, 1 << 30: 1 << 30})
    state = with_container(resources=resources)
    state = msgspec.structs.replace(state, config={"control": {"rdt": {1: 2}}})
    StateFile(tmp_path, LOG).write(state)
    again = read_state(tmp_path, LOG)
    assert again.pods == state.pods
    assert again.config == {"control": {"rdt": {"1": 2}}}


def test_no_file_means_nothing_is_remembered(tmp_path: Path) -> None:
    assert read_state(tmp_path, LOG) == State()


def written(tmp_path: Path) -> bytes:
    StateFile(tmp_path, LOG).write(STATE)
    return (tmp_path / "state.json").read_bytes()


def put_aside(tmp_path: Path) -> Path:
    """The one file that is left after a state was refused."""
    assert read_state(tmp_path, LOG, lambda: 1234.5) == State()
    aside = tmp_path / "state.json.corrupt-1234"
    assert [one.name for one in tmp_path.iterdir() if one.name != "elsewhere"] == [aside.name]
    return aside


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "truncated", id="an empty file, as a crash leaves it"),
        pytest.param(b"\xff\x00{", "malformed", id="no text"),
        pytest.param(b"[" * 100_000, "state.json", id="brackets without end"),
        pytest.param(
            b'{"version": 1, "containers": {"c1": {"pool": "p"}}}',
            "version 1 is not 2, 3 or 4",
            id="an earlier version's",
        ),
        pytest.param(b'{"version": 99}', "version 99 is not 2, 3 or 4", id="a later version's"),
        pytest.param(b'{"version": 2, "state": {}}', "the checksum is not", id="no checksum"),
    ],
)
def test_broken_file_is_put_aside_and_kept(
    tmp_path: Path, content: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_bytes(content)
    assert put_aside(tmp_path).read_bytes() == content
    assert reason in caplog.text
    assert "put aside as state.json.corrupt-1234; nothing is remembered" in caplog.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b'"1-2"', b'"1-3"', id="other cpus"),
        pytest.param(b'"socket #0"', b'"socket #1"', id="another pool"),
        pytest.param(b'"pinCPU":true', b'"pinCPU":false', id="another configuration"),
    ],
)
def test_a_file_somebody_edited_is_not_believed(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    content = written(tmp_path)
    assert content.count(before) == 1
    (tmp_path / "state.json").write_bytes(content.replace(before, after))
    put_aside(tmp_path)


def test_every_prefix_of_a_state_is_survived(tmp_path: Path) -> None:
    whole = written(tmp_path)
    for length in range(len(whole)):
        (tmp_path / "state.json").write_bytes(whole[:length])
        assert read_state(tmp_path, LOG) == State()


def test_values_that_make_no_sense_are_not_believed(tmp_path: Path) -> None:
    StateFile(tmp_path, LOG).write(with_container(exclusive="x"))
    put_aside(tmp_path)


def test_a_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "state.json").rename(elsewhere)
    (tmp_path / "state.json").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert put_aside(tmp_path).is_symlink()
    assert elsewhere.read_bytes() == before
    assert "a symbolic link" in caplog.text


def test_a_file_anybody_can_write_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path)
    (tmp_path / "state.json").chmod(0o602)
    put_aside(tmp_path)
    assert "anybody may have written it" in caplog.text


def test_neither_a_pipe_nor_a_folder_holds_up_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json")
    put_aside(tmp_path).unlink()
    (tmp_path / "state.json").mkdir()
    put_aside(tmp_path)


def test_a_file_that_cannot_be_put_aside_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_bytes(b"broken")
    for name in ("corrupt-1", *(f"corrupt-1-{number}" for number in range(2, 100))):
        (tmp_path / f"state.json.{name}").touch()
    assert read_state(tmp_path, LOG, lambda: 1.0) == State()
    assert "cannot be put aside: File exists" in caplog.text


def test_files_put_aside_in_one_second_are_all_kept(tmp_path: Path) -> None:
    for content in (b"first", b"second", b"third"):
        (tmp_path / "state.json").write_bytes(content)
        assert read_state(tmp_path, LOG, lambda: 1.0) == State()
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {
        "state.json.corrupt-1": b"first",
        "state.json.corrupt-1-2": b"second",
        "state.json.corrupt-1-3": b"third",
    }


@pytest.mark.parametrize("name", ["state.new", "state.json"])
def test_a_folder_in_the_way_is_put_aside(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    StateFile(tmp_path, LOG).write(STATE)
    assert read_state(tmp_path, LOG) == STATE
    (aside,) = tmp_path.glob(f"{name}.corrupt-*")
    assert (aside / "precious").exists()
    assert f"{name}: a folder in the way — put aside as {aside.name}" in caplog.text


def give_away(path: Path) -> None:
    os.chown(path, 12345, 12345)


def open_to_a_group(path: Path) -> None:
    os.chown(path, -1, 12345)
    path.chmod(0o770)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["state.json", "."], ids=["the file", "its folder"])
@pytest.mark.parametrize("spoil", [give_away, open_to_a_group, open_to_all])
def test_a_state_that_others_could_have_written_is_not_believed(
    tmp_path: Path, spoil: Callable[[Path], None], name: str
) -> None:
    written(tmp_path)
    spoil(tmp_path / name)
    put_aside(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_copy_of_another_nodes_state_may_be_anybodys(tmp_path: Path) -> None:
    written(tmp_path)
    give_away(tmp_path / "state.json")
    assert load_state(tmp_path / "state.json") == STATE


def test_a_state_of_the_version_before_is_read(tmp_path: Path) -> None:
    (pod,) = STATE.pods
    containers = [
        {**msgspec.to_builtins(one), "pod": msgspec.to_builtins(pod)} for one in pod.containers
    ]
    for one in containers:
        del one["pod"]["containers"]
    state = {**msgspec.to_builtins(STATE), "containers": containers}
    del state["pods"]
    content = msgspec.json.encode(state)
    checksum = hashlib.sha256(content).hexdigest()
    file = {"version": 2, "checksum": checksum, "state": msgspec.Raw(content)}
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(file))
    assert read_state(tmp_path, LOG) == STATE


def test_a_checksum_of_an_older_daemon_is_believed_where_it_is_right(tmp_path: Path) -> None:
    content = msgspec.json.encode(STATE)
    checksum = hashlib.sha256(content).hexdigest()
    file = {"version": 3, "checksum": checksum, "state": msgspec.Raw(content)}
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(file))
    assert read_state(tmp_path, LOG) == STATE
    file["checksum"] = checksum[::-1]
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(file))
    put_aside(tmp_path)


def test_advice_is_taken_from_a_state_that_cannot_tell_what_runs(tmp_path: Path) -> None:
    (pod,) = STATE.pods
    odd = tuple(msgspec.structs.replace(one, cpus="1-") for one in pod.containers)
    state = msgspec.structs.replace(STATE, pods=(msgspec.structs.replace(pod, containers=odd),))
    StateFile(tmp_path, LOG).write(state)
    assert read_state(tmp_path, LOG).advice() == STATE.advice()
    with pytest.raises(StateFileError, match="'1-'"):
        load_state(tmp_path / "state.json")


(POOL,) = Engine(MACHINE, Config()).tree.pools
GRANT = Grant(container_id=ContainerId("any"), pool_id=PoolId(0), exclusive=CpuSet.of(1))
ADVICE = Advice.of(GRANT, POOL, cpu_request_milli=0)


def placed(container: Container, grant: Grant = GRANT) -> PlacedContainer:
    """A container with the cpus it says itself."""
    return PlacedContainer(container, container.cpus, container.mems, grant, POOL)


def talkative(pod: str, *names: str, text: str) -> list[Container]:
    """The containers of a pod with a long annotation that is for us."""
    annotations = {"affinity.resource-policy.nri.io/pod": text}
    return [
        Container(
            id=ContainerId(f"{pod}-{name}"),
            name=name,
            pod=Pod(id=PodId(pod), name=pod, uid=pod, annotations=annotations),
            labels={"app": name},
        )
        for name in names
    ]


def collected(running: list[Container], pods: SavedPods | None = None) -> State:
    saved = pods or SavedPods()
    gone = vars(saved)["_pods"].keys() - {one.id for one in running}
    return State(pods=saved.follow(map(placed, running), gone))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 250_000, id="of letters"),
        pytest.param("\x01" * 250_000, id="of letters that take six bytes"),
        pytest.param("\N{SNOWMAN}" * 250_000, id="of snowmen"),
    ],
)
def test_a_thousand_long_annotations_leave_a_small_file_with_all_grants(
    tmp_path: Path, text: str
) -> None:
    running = [
        one for number in range(1000) for one in talkative(f"p{number:03}", "main", text=text)
    ]
    state = collected(running)
    StateFile(tmp_path, LOG).write(state)
    assert (tmp_path / "state.json").stat().st_size < TEXT_BYTES_MAX + 1000 * 500
    again = read_state(tmp_path, LOG)
    assert again == state
    assert {one.path for one in again.running()} == {one.path for one in running}
    kept = [pod for pod in again.pods if not pod.is_cut]
    labelled = {one.id for pod in kept for one in pod.containers}
    assert again.advice() == {
        one.id: structs.replace(ADVICE, labels={} if one.id in labelled else None)
        for one in running
    }
    assert 0 < len(kept) < 20
    assert all(pod.annotations for pod in kept)
    assert not any(pod.annotations for pod in again.pods if pod.is_cut)


def test_a_pod_is_saved_once_for_all_of_its_containers(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(300)]
    running = talkative("p", *names, text="x" * 250_000)
    state = collected(running)
    StateFile(tmp_path, LOG).write(state)
    assert (tmp_path / "state.json").stat().st_size < 250_000 + 300 * 500
    assert {one.id: one for one in read_state(tmp_path, LOG).running()} == {
        one.id: one for one in running
    }


def test_the_pods_with_the_shortest_texts_keep_theirs() -> None:
    texts = {"a": "x" * 5000, "b": "x" * 300, "c": "x" * 4000, "d": ""}
    running = [one for pod, text in texts.items() for one in talkative(pod, "main", text=text)]
    state = collected(running, SavedPods(5000))
    assert {pod.id: pod.is_cut for pod in state.pods} == {
        "a": True, "b": False, "c": False, "d": False
    }  # fmt: skip
    assert [bool(pod.containers[0].labels) for pod in state.pods] == [False, True, True, True]


def test_texts_are_kept_where_there_is_room_for_them_alone() -> None:
    texts = {"a": "x" * 900, "b": "y" * 300}
    running = [one for pod, text in texts.items() for one in talkative(pod, "main", text=text)]
    whole = collected(running)
    length = sum(len(msgspec.json.encode(one)) for one in whole.pods)
    assert collected(running, SavedPods(length)) == whole
    assert collected(running, SavedPods(length - 1)) == whole, "the rest is not text"
    cut = collected(running, SavedPods(1200))
    assert [pod.is_cut for pod in cut.pods] == [True, False]


def test_what_was_read_of_a_pod_is_right_the_next_time_too() -> None:
    pods = SavedPods(5000)
    long, short = talkative("a", "main", text="x" * 4000), talkative("b", "main", text="x" * 3000)
    assert [pod.is_cut for pod in collected(long + short, pods).pods] == [True, False]
    assert collected(long, pods) == collected(long)
    again = talkative("a", "main", text="another")
    assert collected(again, pods) == collected(again)


def test_a_state_no_start_would_read_is_not_written(tmp_path: Path) -> None:
    StateFile(tmp_path, LOG).write(STATE)
    vast = with_container(name="x" * (BYTES_MAX + 1))
    with pytest.raises(OSError, match="File too large"):
        StateFile(tmp_path, LOG).write(vast)
    assert read_state(tmp_path, LOG) == STATE


@pytest.mark.parametrize("name", ["state.new", "state.json"])
def test_what_lies_in_the_way_is_replaced_and_not_written_to(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / name).symlink_to(elsewhere)
    StateFile(tmp_path, LOG).write(STATE)
    assert read_state(tmp_path, LOG) == STATE
    assert elsewhere.read_bytes() == b"precious"


def test_a_container_is_saved_with_all_the_policy_looks_at() -> None:
    ours = {
        "prefer-shared-cpus.resource-policy.nri.io/pod": "true",
        "resource-policy.nri.io/affinity": "{}",
        "smt.pinfold.dev/container.main": "pack",
        "noderesource.dev/resources": "{}",
    }
    container = Container(
        id=ContainerId("c1"),
        name="main",
        pod=Pod(
            id=PodId("p1"),
            name="web",
            namespace="shop",
            uid="u1",
            labels={"app": "web"},
            annotations={**ours, "example.com/secret": "hush", "notpinfold.dev/x": "y"},
            qos=QosClass.BURSTABLE,
        ),
        labels={"tier": "front"},
        tags={"a": "b"},
        resources=Resources(
            cpu_request_milli=1500,
            cpu_limit_milli=2000,
            memory_request_bytes=5,
            memory_limit_bytes=6,
            hugepage_bytes={2 << 20: 4 << 20},
        ),
        state=ContainerState.RUNNING,
        created_at=77,
        cpus=CpuSet.of(1, 2, 200),
        mems=NodeSet.of(0),
        hints=(
            Hint(
                provider="class/net/eth0",
                origin=HintOrigin.DEVICE,
                cpus=CpuSet.of(130),
                numa_nodes=NodeSet.of(1),
                sockets=(0,),
                interrupts=(4, 40),
            ),
        ),
    )
    grant = structs.replace(GRANT, exclusive=CpuSet.of(200), grown=(CpuSet.of(200),))
    advice = Advice.of(grant, POOL, cpu_request_milli=container.resources.cpu_request_milli)
    (pod,) = SavedPods().follow([placed(container, grant)], ())
    content = msgspec.json.encode(pod)
    saved = msgspec.json.decode(content, type=SavedPod)
    assert saved.containers[0].advice() == advice
    (again,) = saved.running()
    assert again.pod.annotations == ours
    assert again.pod.labels == container.pod.labels
    (pod,) = SavedPods().follow([placed(again, grant)], ())
    assert msgspec.json.encode(pod) == content
    assert again.resources == container.resources
    assert again.hints == container.hints
    assert (again.cpus, again.mems, again.state, again.created_at, again.labels, again.tags) == (
        container.cpus,
        container.mems,
        container.state,
        container.created_at,
        container.labels,
        container.tags,
    )


def test_a_policy_made_of_its_state_holds_the_same() -> None:
    config = Config(reserved_resources=Amounts(cpu="cpuset:7"), colocate_pods=True)
    engine = Engine(MACHINE, config)
    for name in ("one", "two"):
        pod = Pod(id=PodId(name), name=name, qos=QosClass.GUARANTEED)
        resources = mixed(name).containers[0].resources
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))
    state = SavedStates().of(engine.snapshot())
    again = Engine(MACHINE, config_from_values(state.config))
    again.synchronize(state.running(), state.advice())
    assert again.config == config
    assert SavedStates().of(again.snapshot()) == state
    assert state.machine.summary == "cpus 0-7, sockets: 1, NUMA nodes: 1"


def test_a_machine_is_known_by_its_shape_and_not_by_its_memory() -> None:
    def fingerprint(spec: str) -> str:
        return saved_machine(machine_from_spec(spec)).fingerprint

    known = fingerprint("socket:1 numa:1 core:8 thread:1 mem:8G")
    assert fingerprint("socket:1 numa:1 core:8 thread:1 mem:9G") == known
    assert fingerprint("socket:1 numa:2 core:4 thread:1 mem:8G") != known
    assert fingerprint("socket:1 numa:1 core:4 thread:2 mem:8G") != known


def test_restarted_daemon_knows_which_cpus_are_whose(tmp_path: Path, run: Run) -> None:
    runtime = EmbeddedRuntime()
    first = run(runtime)
    for name in ("one", "two", "three"):
        assert not start_pods(runtime, [mixed(name)], 8 << 30)
    assert first.front.settle()
    before = exclusive_cpus(first)
    cpus = {one.name: one.linux.resources.cpu.cpus for one in runtime.containers.values()}
    counts = runtime.update_counts.copy()
    runtime.drop()
    second = run(runtime)
    assert exclusive_cpus(second) == before
    assert len(before) == 3
    assert {one.name: one.linux.resources.cpu.cpus for one in runtime.containers.values()} == cpus
    assert runtime.update_counts == counts


def test_daemon_that_saw_no_runtime_does_not_forget(tmp_path: Path) -> None:
    StateFile(tmp_path, LOG).write(STATE)
    keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
    unconnected = EmbeddedRuntime()
    daemon = Daemon(MACHINE, Config(), embedded_link(unconnected), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.reconfigure(Config(colocate_pods=True))
    keeper.stop()
    daemon.front.owner.close()
    assert read_state(tmp_path, LOG) == STATE


def test_another_configuration_is_saved(tmp_path: Path) -> None:
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    assert daemon.front.wait_until_ready(5)
    assert not start_pods(runtime, [mixed("one")], 8 << 30)
    assert daemon.reconfigure(Config(colocate_pods=True))
    assert daemon.front.settle()
    keeper.stop()
    daemon.stop()
    state = read_state(tmp_path, LOG)
    assert config_from_values(state.config) == Config(colocate_pods=True)
    assert [one.name for one in state.running()] == ["one"]


def test_another_one_that_is_stuck_is_saved_though_nothing_else_happens(
    tmp_path: Path, run: Run
) -> None:
    runtime = EmbeddedRuntime()
    daemon = run(runtime)
    assert not start_pods(runtime, [mixed("one")], 8 << 30)
    assert daemon.front.settle()
    (tmp_path / "calm").mkdir()
    keeper = StateKeeper(tmp_path / "calm", LOG, pause_seconds=0)
    keeper.start(daemon.front)
    keeper(Synchronized(containers=1, updates=0))
    assert eventually(lambda: bool(read_state(tmp_path / "calm", LOG).pods))
    (one,) = daemon.engine.grants
    stuck = {one: CpuSet.parse("0-7")}
    daemon.front.owner.ask("n", lambda: daemon.engine.stuck_containers.note(stuck))
    Fanout([keeper])(Unmoved(1))
    keeper.stop()
    assert read_state(tmp_path / "calm", LOG).stuck == {one: "0-7"}


def test_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(tmp_path / "none", LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    for name in ("one", "two"):
        assert not start_pods(runtime, [mixed(name)], 8 << 30)
        assert daemon.front.settle()
    keeper.stop()
    daemon.stop()
    assert [one.getMessage() for one in caplog.records] == [
        f"{tmp_path}/none: No such file or directory — the state is not saved"
    ]
    assert keeper.fault() == caplog.messages[0]


def test_of_a_fault_nothing_is_told_any_more_once_the_state_is_saved(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(folder, LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    assert not start_pods(runtime, [mixed("one")], 8 << 30)
    assert eventually(lambda: bool(keeper.fault()))
    claim_folder(folder)
    assert not start_pods(runtime, [mixed("two")], 8 << 30)
    daemon.front.settle()
    keeper.stop()
    daemon.stop()
    assert keeper.fault() == ""


def test_what_could_not_be_saved_is_saved_once_it_can_be_though_nothing_happens(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "state"
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(folder, LOG, pause_seconds=0, again_seconds=0.01)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    assert not start_pods(runtime, [mixed("one")], 8 << 30)
    daemon.front.settle()
    assert eventually(lambda: bool(keeper.fault()))
    claim_folder(folder)
    assert eventually(lambda: not keeper.fault())
    assert [one.name for one in read_state(folder, LOG).running()] == ["one"]
    keeper.stop()
    daemon.stop()


def test_a_folder_that_was_deleted_meanwhile_is_made_and_claimed_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    claim_folder(folder)
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(folder, LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    while folder.exists():
        # The first state may be written meanwhile.
        shutil.rmtree(folder, ignore_errors=True)
    assert not start_pods(runtime, [mixed("one")], 8 << 30)
    daemon.front.settle()
    keeper.stop()
    daemon.stop()
    assert [one.name for one in read_state(folder, LOG).running()] == ["one"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert f"{folder}: the state directory was gone, and is made anew" in caplog.messages
    times = iter((0.0, 9.0))
    with pytest.raises(StateFolderInUseError):
        claim_folder(folder, lambda: next(times), lambda _seconds: None)


def test_a_fault_of_ours_ends_no_saving(caplog: pytest.LogCaptureFixture) -> None:
    runtime = EmbeddedRuntime()
    # No folder has such a name, and the error is none of the file system's.
    keeper = StateKeeper(Path("no\0folder"), LOG, pause_seconds=0)
    saved: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = QueueHandler(saved)
    LOG.addHandler(handler)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.front)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    for name in ("one", "two"):
        assert not start_pods(runtime, [mixed(name)], 8 << 30)
        assert "a fault of ours — the state is not saved" in saved.get(timeout=5).getMessage()
    assert "a fault of ours — the state is not saved" in keeper.fault()
    keeper.stop()
    daemon.stop()
    LOG.removeHandler(handler)


def test_an_end_is_not_missed_whenever_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
    changed = OvertakenEvent(keeper.stop)
    monkeypatch.setattr(keeper, "_is_changed", changed)
    daemon = Daemon(MACHINE, Config(), embedded_link(EmbeddedRuntime()), reports=(keeper,))
    keeper.start(daemon.front)
    keeper(Synchronized(0, 0))
    assert changed.is_over.wait(SECONDS), "it waits for a change for ever"
    daemon.front.owner.close()
    assert (tmp_path / "state.json").exists()


def test_what_happened_just_before_the_end_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nobody was told of it yet, as the runtime had gone on calling."""
    for name in ("_QUIET_SECONDS", "_LEFT_SECONDS"):
        monkeypatch.setattr(f"pinfold.nri.plugin.session.{name}", 60.0)
    runtime, reports = EmbeddedRuntime(), DaemonReports.of(tmp_path, None, LOG)
    link, pod = embedded_link(runtime), mixed("late")
    daemon = Daemon(MACHINE, Config(), link, reports=tuple(reports), timing=PATIENT)
    reports.begin(daemon)
    daemon.start()
    try:
        assert runtime.wait_until_synchronized(5)
        assert daemon.front.settle()
        assert eventually((tmp_path / "state.json").exists)
        runtime.run_pod(sandbox_message(pod))
        runtime.create(container_message(pod.containers[0], pod, 8 << 30))
    finally:
        reports.stop_keeping(daemon)
        daemon.stop()
    assert daemon.engine.grants.keys() == read_state(tmp_path, LOG).advice().keys() != set()

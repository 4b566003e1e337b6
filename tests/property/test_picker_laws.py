"""Laws of picking cpus, on machines no shop sells: sparse ids, lone siblings, caches or none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.cpus.cpu_blocks import CpuBlocks, lowest_bits
from pinfold.policy.cpus.picker import CpuPicker
from pinfold.policy.model.cpu_preference import CpuPriority, SmtPreference
from pinfold.topology.model.machine import (
    Cache,
    CoreKind,
    Cpu,
    Domain,
    Machine,
    NumaNode,
    NumaNodeId,
    SocketId,
)
from pinfold.topology.sets.cpuset import CpuSet

few = settings(deadline=None, max_examples=150)


@dataclass(frozen=True)
class Shape:
    """How many of what; the ids of cpus in the order in which cores take them."""

    sockets: int
    dies: int
    groups: int
    cores: int
    threads: int
    ids: Sequence[int]
    offline: frozenset[int]
    efficient: frozenset[int]
    has_caches: bool
    base_khz: Sequence[int]


@st.composite
def shapes(draw: st.DrawFn, *, is_uniform: bool = False) -> Shape:
    sockets, dies, groups = (draw(st.integers(1, top)) for top in (3, 2, 3))
    cores = draw(st.integers(1, 4))
    threads = 2 if is_uniform else draw(st.sampled_from((1, 2, 2, 4)))
    count = sockets * dies * groups * cores * threads
    numbering = draw(st.sampled_from(("adjacent", "apart", "sparse")))
    if numbering == "adjacent":
        ids = list(range(count))
    elif numbering == "apart":
        ids = [
            core + thread * (count // threads)
            for core in range(count // threads)
            for thread in range(threads)
        ]
    else:
        ids = draw(st.lists(st.integers(0, 4095), min_size=count, max_size=count, unique=True))
    lone = frozenset[int]() if is_uniform else draw(st.frozensets(st.sampled_from(ids), max_size=5))
    small = draw(st.frozensets(st.integers(0, count // threads), max_size=8))
    return Shape(
        sockets=sockets,
        dies=dies,
        groups=groups,
        cores=cores,
        threads=threads,
        ids=ids,
        offline=lone if len(lone) < count else frozenset[int](),
        efficient=frozenset[int]() if is_uniform else small,
        has_caches=draw(st.booleans()),
        base_khz=draw(st.lists(st.sampled_from((1_000_000, 2_000_000)), min_size=1, max_size=3)),
    )


def groups_of(ids: Sequence[int], size: int, online: CpuSet) -> list[CpuSet]:
    """The ids cut into pieces of one size; pieces without an online cpu are left out."""
    pieces = (CpuSet.collect(ids[i : i + size]) & online for i in range(0, len(ids), size))
    return [piece for piece in pieces if piece]


def build(shape: Shape) -> Machine:
    ids = shape.ids
    present = CpuSet.collect(ids)
    online = present - CpuSet.collect(shape.offline)
    in_group = shape.cores * shape.threads
    in_socket = in_group * shape.groups * shape.dies
    cores = groups_of(ids, shape.threads, online)
    groups = groups_of(ids, in_group, online)
    caches = [Cache(level=2, type="Unified", cpus=core) for core in cores]
    caches += [Cache(level=3, type="Unified", cpus=group) for group in groups]
    sockets = groups_of(ids, in_socket, online)
    dies = groups_of(ids, in_group * shape.groups, online)
    position = {cpu: i for i, cpu in enumerate(ids)}
    return Machine(
        online=online,
        present=present,
        possible=present,
        cpus={
            cpu: Cpu(
                id=cpu,
                socket=SocketId(position[cpu] // in_socket),
                base_khz=shape.base_khz[cpu % len(shape.base_khz)],
                kind=CoreKind.EFFICIENT
                if position[cpu] // shape.threads in shape.efficient
                else CoreKind.PERFORMANCE,
            )
            for cpu in online
        },
        sockets=domains(sockets),
        dies=domains(dies),
        clusters=domains(groups_of(ids, shape.threads * 2, online)),
        cores=in_order(cores),
        caches=tuple(caches) if shape.has_caches else (),
        l2_groups=in_order(cores) if shape.has_caches else (),
        l3_groups=in_order(groups) if shape.has_caches else (),
        numa_nodes=tuple(
            NumaNode(id=NumaNodeId(i), cpus=cpus) for i, cpus in enumerate(in_order(sockets))
        ),
    )


def in_order(sets: Sequence[CpuSet]) -> tuple[CpuSet, ...]:
    return tuple(sorted(sets, key=lambda one: one.lowest))


def domains(sets: Sequence[CpuSet]) -> tuple[Domain, ...]:
    return tuple(Domain(label=str(i), cpus=one) for i, one in enumerate(in_order(sets)))


machines = shapes().map(build)
priorities = st.sampled_from(CpuPriority)
threads = st.sampled_from(SmtPreference)


def subsets(draw: st.DrawFn, machine: Machine) -> int:
    """Some cpus: whole cores, and single ones."""
    cores = draw(st.lists(st.sampled_from(machine.cores), max_size=len(machine.cores)))
    lone = draw(st.lists(st.sampled_from(sorted(machine.cpus)), max_size=8))
    mask = CpuSet.collect(lone).mask
    for core in cores:
        mask |= core.mask
    return mask


@st.composite
def requests(draw: st.DrawFn, *, is_uniform: bool = False) -> tuple[Machine, int, int]:
    machine = build(draw(shapes(is_uniform=is_uniform)))
    free = draw(st.just(machine.online.mask) | st.composite(subsets)(machine))
    return machine, free, draw(st.integers(0, free.bit_count() + 2))


@few
@given(requests(), priorities, threads)
def test_a_pick_is_exactly_what_was_asked_for_or_nothing(
    request: tuple[Machine, int, int], priority: CpuPriority, smt: SmtPreference
) -> None:
    machine, free, count = request
    picked = CpuPicker(machine).pick(free, count, priority, smt)
    assert (picked is None) == (count > free.bit_count())
    if picked is not None:
        assert not picked & ~free
        assert picked.bit_count() == count


@few
@given(requests(), requests(), priorities, threads)
def test_nothing_but_the_question_decides(
    request: tuple[Machine, int, int],
    other: tuple[Machine, int, int],
    priority: CpuPriority,
    smt: SmtPreference,
) -> None:
    machine, free, count = request
    picker = CpuPicker(machine)
    first = picker.pick(free, count, priority, smt)
    picker.pick(other[1], other[2], priority, smt)
    assert picker.pick(free, count, priority, smt) == first
    assert CpuPicker(machine).pick(free, count, priority, smt) == first


@few
@given(requests(is_uniform=True))
def test_no_core_is_split_while_idle_cores_suffice(request: tuple[Machine, int, int]) -> None:
    machine, free, count = request
    idle = sum(core.mask for core in machine.cores if not core.mask & ~free)
    whole = count - count % 2
    if whole > idle.bit_count() or count >= free.bit_count():
        return
    picked = CpuPicker(machine).pick(free, count)
    assert picked is not None
    halves = [core for core in machine.cores if (core.mask & picked).bit_count() == 1]
    assert len(halves) == count % 2


@few
@given(requests(), st.sampled_from((CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW)))
def test_the_wanted_class_is_taken_first(
    request: tuple[Machine, int, int], priority: CpuPriority
) -> None:
    machine, free, count = request
    picker = CpuPicker(machine)
    picked = picker.pick(free, count, priority)
    if picked is not None:
        wanted = picker.classes.of(priority)
        most = min(count, (free & wanted).bit_count())
        assert (picked & wanted).bit_count() == most


@few
@given(requests())
def test_spreading_uses_as_many_cores_as_there_are(request: tuple[Machine, int, int]) -> None:
    machine, free, count = request
    picked = CpuPicker(machine).pick(free, count, smt=SmtPreference.SPREAD)
    if picked is not None:
        reached = sum(1 for core in machine.cores if core.mask & free)
        assert sum(1 for core in machine.cores if core.mask & picked) == min(count, reached)


@few
@given(requests(is_uniform=True))
def test_packing_uses_as_few_cores_as_whole_cores_allow(
    request: tuple[Machine, int, int],
) -> None:
    machine, free, count = request
    picked = CpuPicker(machine).pick(free, count, smt=SmtPreference.PACK)
    if picked is not None:
        sizes = sorted((core.mask & free).bit_count() for core in machine.cores)
        fewest, missing = 0, count
        while missing > 0:
            missing -= sizes.pop()
            fewest += 1
        assert sum(1 for core in machine.cores if core.mask & picked) == fewest


@few
@given(requests())
def test_one_cache_group_serves_alone_what_it_can(request: tuple[Machine, int, int]) -> None:
    machine, free, count = request
    # Cores of one thread and of one kind, so that nothing finer than caches has a say.
    machine = replace(
        machine,
        cores=tuple(CpuSet.of(cpu) for cpu in machine.cpus),
        cpus={i: replace(cpu, kind=CoreKind.PERFORMANCE) for i, cpu in machine.cpus.items()},
        clusters=(),
    )
    groups = [group.mask & free for group in machine.l3_groups]
    if {die.cpus for die in machine.dies} & set(machine.l3_groups):
        return  # there the die, a pool of its own, says the same
    picked = CpuPicker(machine).pick(free, count)
    is_part = 1 < count < min(len(socket.cpus) for socket in machine.sockets)
    if picked and is_part and any(group.bit_count() >= count for group in groups):
        assert any(not picked & ~group for group in groups)


@few
@given(requests())
def test_one_cluster_serves_alone_what_is_smaller(request: tuple[Machine, int, int]) -> None:
    machine, free, count = request
    # As above; without caches nothing but clusters divides a socket.
    machine = replace(
        machine,
        cores=tuple(CpuSet.of(cpu) for cpu in machine.cpus),
        cpus={i: replace(cpu, kind=CoreKind.PERFORMANCE) for i, cpu in machine.cpus.items()},
        caches=(),
        l2_groups=(),
        l3_groups=(),
    )
    parts = [cluster.cpus.mask & free for cluster in machine.clusters]
    shared = [len(cluster.cpus) for cluster in machine.clusters if len(cluster.cpus) > 1]
    clustered = {
        cpu
        for socket in machine.sockets
        if sum(1 for one in machine.clusters if one.cpus <= socket.cpus) > 1
        for cpu in socket.cpus
    }
    dies = [die.cpus for die in machine.dies]
    if any(not any(one.cpus <= die for die in dies) for one in machine.clusters):
        return  # dies cut clusters
    if len(shared) < len(parts) or CpuSet(free) - CpuSet.collect(clustered):
        return  # some cpus are in no cluster worth the name
    picked = CpuPicker(machine).pick(free, count)
    enough = [part for part in parts if part.bit_count() >= count]
    if picked and enough and count < min(shared):
        tightest = min(enough, key=int.bit_count)  # of equals the first cluster
        assert not picked & ~tightest


@few
@given(requests(), st.data())
def test_growing_adds_what_is_asked_for(
    request: tuple[Machine, int, int], data: st.DataObject
) -> None:
    machine, held, count = request
    picker = CpuPicker(machine)
    free = data.draw(st.composite(subsets)(machine))
    added = picker.extend(held, free, count, smt=data.draw(threads))
    assert (added is None) == (count > (free & ~held).bit_count())
    if added is not None:
        assert not added & ~(free & ~held)
        assert added.bit_count() == count


@few
@given(requests())
def test_siblings_of_held_cores_come_before_all_others(request: tuple[Machine, int, int]) -> None:
    machine, held, more = request
    free = machine.online.mask & ~held
    added = CpuPicker(machine).extend(held, free, more)
    if added is not None and held:
        siblings = sum(core.mask for core in machine.cores if core.mask & held) & free
        assert (added & siblings).bit_count() == min(more, siblings.bit_count())


@few
@given(requests(), st.data())
def test_spread_containers_grow_to_as_many_cores_as_there_are(
    request: tuple[Machine, int, int], data: st.DataObject
) -> None:
    machine, free, more = request
    held = data.draw(st.composite(subsets)(machine))
    added = CpuPicker(machine).extend(held, free, more, smt=SmtPreference.SPREAD)
    if added is not None:
        unheld = [core.mask for core in machine.cores if not core.mask & held]
        reached = sum(1 for core in unheld if core & free)
        assert sum(1 for core in unheld if core & added) == min(more, reached)


@few
@given(requests())
def test_hiding_keeps_one_thread_of_each_core(request: tuple[Machine, int, int]) -> None:
    machine, cpus, _ = request
    shown = CpuPicker(machine).cores.lowest_members(cpus)
    lowest = [CpuSet(core.mask & cpus).lowest for core in machine.cores if core.mask & cpus]
    assert shown == CpuSet.collect(lowest).mask


@few
@given(requests(), st.integers(0, 40))
def test_blocks_agree_with_going_through_the_groups(
    request: tuple[Machine, int, int], count: int
) -> None:
    machine, free, _ = request
    for sets in (machine.cores, [die.cpus for die in machine.dies]):
        masks = [one.mask for one in sets]
        blocks = CpuBlocks(masks)
        idle = [mask for mask in masks if not mask & ~free]
        assert blocks.idle(free) == sum(mask & -mask for mask in idle)
        assert blocks.members(blocks.idle(free)) == sum(idle)
        assert blocks.covering(free) == sum(mask for mask in masks if mask & free)
        assert blocks.touched(free) == sum(mask & -mask for mask in masks if mask & free)
        for number, firsts in enumerate(blocks.by_free_count(free)):
            alike = [mask for mask in masks if (mask & free).bit_count() == number]
            assert firsts == sum(mask & -mask for mask in alike)
    assert lowest_bits(free, count) == CpuSet.collect(list(CpuSet(free))[:count]).mask

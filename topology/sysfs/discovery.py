"""Discovery: a tree of sysfs files becomes a `Machine`. Nothing the kernel shows makes it fail."""

from ..model.machine import CoreKind, Cpu, Machine, SocketId
from ..sets.base_errors import TopologyError
from ..sets.cpuset import NodeSet
from .attributes import Attributes
from .caches import cache_groups, read_caches
from .cpu_traits import Frequency, read_efficient, read_frequencies
from .cpus import CPU, read_cpu_sets, read_layout
from .devices import read_devices
from .numa_nodes import read_numa
from .processor import read_cpuinfo
from .speed_select_source import ask_hardware, kept_speed_select
from .sysfs_tree import SysfsTree, open_tree

_NO_FREQUENCY = Frequency()


def read_machine(root: str = "/") -> Machine:
    """The machine below a directory or in a snapshot archive; "/" is the one this runs on.

    Only that one is asked for Speed Select. Raises `TopologyError` where the root cannot be read
    or shows no cpus.
    """
    tree = open_tree(root)
    machine = discover(tree)
    return ask_hardware(machine) if is_live(tree) else machine


def is_live(tree: SysfsTree) -> bool:
    """Whether a tree is that of the machine this runs on."""
    return tree.root == "/"


def discover(tree: SysfsTree) -> Machine:
    """The machine a tree shows. Reads each file once; time is linear in cpus.

    Raises `TopologyError` where not one cpu is online.
    """
    attributes = Attributes(tree)
    sets = read_cpu_sets(attributes)
    online = sets.online
    if not online:
        raise TopologyError(f"{tree.root}/{CPU}: no cpu is online — give a copy of a whole /sys")
    layout = read_layout(attributes, online)
    caches = read_caches(attributes, layout.cores)
    numa = read_numa(attributes, online, sets.present)
    efficient = read_efficient(attributes, online, layout.cores)
    frequencies = read_frequencies(attributes, online)
    cpus: dict[int, Cpu] = {}
    for cpu in online:
        frequency = frequencies.get(cpu, _NO_FREQUENCY)
        cpus[cpu] = Cpu(
            id=cpu,
            socket=SocketId(layout.socket_of[cpu]),
            die=layout.die_of[cpu],
            cluster=layout.cluster_of.get(cpu, -1),
            core=layout.core_of[cpu],
            kind=CoreKind.EFFICIENT if cpu in efficient else CoreKind.PERFORMANCE,
            base_khz=frequency.base_khz,
            min_khz=frequency.min_khz,
            max_khz=frequency.max_khz,
            epp=frequency.epp,
        )
    return Machine(
        online=online,
        present=sets.present,
        possible=sets.possible,
        isolated=sets.isolated,
        cpus=cpus,
        sockets=layout.sockets,
        dies=layout.dies,
        clusters=layout.clusters,
        cores=layout.cores,
        caches=caches,
        l2_groups=cache_groups(caches, 2),
        l3_groups=cache_groups(caches, 3),
        numa_nodes=numa.nodes,
        distances=numa.distances,
        devices=read_devices(attributes, online, NodeSet.collect(node.id for node in numa.nodes)),
        speed_select=() if is_live(tree) else kept_speed_select(attributes, online),
        cpuinfo=read_cpuinfo(tree),
        warnings=tuple(attributes.warnings),
    )

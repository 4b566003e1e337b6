"""The operator's configuration as values: every field, its name in YAML and its default.

Field names in YAML are those of the `TopologyAwarePolicy` resource (config.nri/v1alpha1), so its
`spec` fits. Text becomes a `Config` in `configtext`.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from ..model.cpu_preference import BurstLevel, CpuPriority, QuotaUse
from ..text.quantity import CpuAmount, MemoryAmount, parse_cpu_amount, parse_memory_amount
from .affinity_fields import AntiAffinityLimits, KubeCompat, Profile, Rack, ReplicaAntiAffinity
from .annotation_rule_fields import AnnotationRule, LoadClass
from .moving_fields import DuringExecution, RebalanceFields
from .section import Section


class OnBadAnnotation(enum.Enum):
    """The fate of a container with an annotation that cannot be read."""

    IGNORE = "ignore"
    FAIL = "fail"


class OnUnsatisfiable(enum.Enum):
    """The fate of a container whose required rules no pool can meet."""

    FAIL = "fail"
    DEGRADE = "degrade"

    @classmethod
    def parse(cls, text: str) -> "OnUnsatisfiable":
        """The fate that a text names, in whatever letters, as in a file of the configuration.

        Raises `ValueError`.
        """
        return cls(text.strip().lower())


class SchedulingPolicy(enum.Enum):
    """The kernel's scheduling policies, sched(7)."""

    NONE = "none"
    OTHER = "other"
    FIFO = "fifo"
    RR = "rr"
    BATCH = "batch"
    ISO = "iso"
    IDLE = "idle"
    DEADLINE = "deadline"


_WITHOUT_NICE: Final = frozenset(
    {SchedulingPolicy.FIFO, SchedulingPolicy.RR, SchedulingPolicy.DEADLINE}
)


class SchedulingFlag(enum.Enum):
    """The kernel's scheduling flags, sched_setattr(2)."""

    RESET_ON_FORK = "reset-on-fork"
    RECLAIM = "reclaim"
    DL_OVERRUN = "dl-overrun"
    KEEP_POLICY = "keep-policy"
    KEEP_PARAMS = "keep-params"
    UTIL_CLAMP_MIN = "util-clamp-min"
    UTIL_CLAMP_MAX = "util-clamp-max"


class IoClass(enum.Enum):
    """The kernel's classes of disk priority, ioprio_set(2)."""

    NONE = "none"
    REALTIME = "rt"
    BEST_EFFORT = "be"
    IDLE = "idle"


class PctPriority(enum.Enum):
    """Priority of a class of cpus under managed Speed Select."""

    HIGH = "high"
    LOW = "low"


class LogLevel(enum.Enum):
    """The least important lines of the log that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.Enum):
    """The form of log lines: pairs of keys and values, or JSON documents."""

    TEXT = "text"
    JSON = "json"


class MetricsExporter(enum.Enum):
    """The destination of metrics."""

    PROMETHEUS = "prometheus"
    OTLP_HTTP = "otlp-http"
    OTLP_GRPC = "otlp-grpc"


class Amounts(Section, frozen=True, kw_only=True):
    """Cpus and memory, as written: amounts ("750m"), "cpuset:0-3", "nodeset:0", "exclude-…"."""

    cpu: str | None = None
    memory: str | None = None

    @property
    def cpu_amount(self) -> CpuAmount | None:
        """The cpus, parsed. Raises `QuantityError`."""
        return None if self.cpu is None else parse_cpu_amount(self.cpu)

    @property
    def memory_amount(self) -> MemoryAmount | None:
        """The memory, parsed. Raises `QuantityError`."""
        return None if self.memory is None else parse_memory_amount(self.memory)


class PoolLabels(Section, frozen=True, kw_only=True):
    """Labels for the pools that a glob names or that lie inside a list of cpus."""

    pool: str | None = None
    cpus: str | None = None
    labels: Mapping[str, str]


class SchedulingClass(Section, frozen=True, kw_only=True):
    """Scheduling of a container's processes by the kernel; None leaves a setting alone.

    `runtime`, `deadline` and `period` are in nanoseconds.
    """

    name: str
    policy: SchedulingPolicy = SchedulingPolicy.NONE
    priority: int | None = None
    flags: tuple[SchedulingFlag, ...] = ()
    nice: int | None = None
    runtime: int | None = None
    deadline: int | None = None
    period: int | None = None
    io_class: IoClass | None = None
    io_priority: int | None = None

    @property
    def effective_nice(self) -> int | None:
        """The nice value, where the kernel heeds one under this policy. Source: sched(7)."""
        return None if self.policy in _WITHOUT_NICE else self.nice


class CpuClass(Section, frozen=True, kw_only=True):
    """Frequencies and idle states of a set of cpus.

    Frequencies: "3.2GHz", "2900MHz", a number of kHz, or min, base, turbo.
    """

    name: str
    min_freq: str | int | None = None
    max_freq: str | int | None = None
    uncore_min_freq: str | int | None = None
    uncore_max_freq: str | int | None = None
    energy_performance_preference: str | int | None = None
    freq_governor: str | None = None
    disabled_cstates: tuple[str, ...] = ()
    turbo_priority: int = 0
    pct_priority: PctPriority | None = None
    sst_clos_id: int | None = None
    pct_min_freq: str | int | None = None
    pct_max_freq: str | int | None = None
    publish_extended_resource: bool = False


class Agent(Section, frozen=True, kw_only=True):
    """Facts that are told to the cluster and asked from it."""

    node_resource_topology: bool = True
    pod_resource_api: bool = False


class Dra(Section, frozen=True, kw_only=True):
    """Classes of cpus as devices of dynamic resource allocation, which the Go policy publishes."""

    enabled: bool = False
    shared_counters: bool = False


class IsOptional(Section, frozen=True, kw_only=True):
    """Whether the machine may lack a feature."""

    optional: bool = False


class RdtOptions(Section, frozen=True, kw_only=True):
    """Kinds of cache and bandwidth control that the machine may lack."""

    l2: IsOptional = IsOptional()
    l3: IsOptional = IsOptional()
    mb: IsOptional = IsOptional()


class RdtPartition(Section, frozen=True, kw_only=True):
    """A share of caches and memory bandwidth, and the classes inside it.

    By cache id, or one text (of memory bandwidth: one list) for all of them, as goresctrl reads it.
    """

    l2_allocation: Mapping[str, object] | str = msgspec.field(default_factory=dict[str, object])
    l3_allocation: Mapping[str, object] | str = msgspec.field(default_factory=dict[str, object])
    mb_allocation: Mapping[str, object] | tuple[object, ...] = msgspec.field(
        default_factory=dict[str, object]
    )
    classes: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])


class RdtControl(Section, frozen=True, kw_only=True):
    """Cache and memory bandwidth classes (resctrl)."""

    enable: bool = False
    use_pod_qos_as_default_class: bool = False
    options: RdtOptions = RdtOptions()
    partitions: Mapping[str, RdtPartition] = msgspec.field(default_factory=dict[str, RdtPartition])
    force: bool = False


class BlockIoControl(Section, frozen=True, kw_only=True):
    """Block device bandwidth classes."""

    enable: bool = False
    use_pod_qos_as_default_class: bool = False


class CpuControl(Section, frozen=True, kw_only=True):
    """Cpu classes in the predecessor's place; this policy has none of its own there."""

    classes: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])


class Control(Section, frozen=True, kw_only=True):
    """Controllers beside the policy, and the group that may use the daemon's control socket."""

    group: str = ""
    """A name or number; none means root and the daemon's own user alone."""

    rdt: RdtControl = RdtControl()
    blockio: BlockIoControl = BlockIoControl()
    cpu: CpuControl = CpuControl()


class Log(Section, frozen=True, kw_only=True):
    """Logging. `debug` names sources, "name:off" takes one out of "all"."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT
    debug: tuple[str, ...] = ()
    source: bool = False
    klog: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])


class Metrics(Section, frozen=True, kw_only=True):
    """Groups of metrics, as globs, and what is told beyond them."""

    enabled: tuple[str, ...] = ("policy", "process", "buildinfo")
    polled: tuple[str, ...] = ()
    container_placement_info: bool = False
    """Whether the place of each container is told, with its name."""


class Instrumentation(Section, frozen=True, kw_only=True):
    """Measurements and where they can be read. Periods are Go durations ("30s")."""

    http_endpoint: str = ""
    prometheus_export: bool = False
    metrics_exporter: MetricsExporter | None = None
    metrics: Metrics = Metrics()
    report_period: str = "30s"
    sampling_rate_per_million: int = 0
    tracing_collector: str = ""
    log_exporter: str = ""
    log_export_period: str = ""


class Config(Section, frozen=True, kw_only=True):
    """Every field of the configuration; `Config()` is what an empty file means."""

    pin_cpu: bool = True
    pin_memory: bool = True
    prefer_isolated_cpus: bool = True
    prefer_shared_cpus: bool = False
    colocate_pods: bool = False
    colocate_namespaces: bool = False
    reserved_pool_namespaces: tuple[str, ...] = ()
    """Globs; kube-system is always served from the reserved cpus."""
    available_resources: Amounts = Amounts()
    reserved_resources: Amounts = Amounts(cpu="1")
    default_cpu_priority: CpuPriority = CpuPriority.NONE
    unlimited_burstable: BurstLevel = BurstLevel.PACKAGE
    exclusive_cpu_quota: QuotaUse = QuotaUse.KEEP
    """Of containers that have all their cpus for themselves and do not say."""

    symmetric_affinity: bool = False
    """Whether every affinity rule also counts the other way round."""
    on_bad_annotation: OnBadAnnotation = OnBadAnnotation.IGNORE
    on_unsatisfiable: OnUnsatisfiable = OnUnsatisfiable.DEGRADE
    pool_labels: tuple[PoolLabels, ...] = ()
    namespace_labels: Mapping[str, Mapping[str, str]] = msgspec.field(
        default_factory=dict[str, Mapping[str, str]]
    )
    """Labels of namespaces, by their names."""
    rules: tuple[AnnotationRule, ...] = ()
    """Annotations by central rule; of several that give one key to a container the first counts."""
    load_classes: tuple[LoadClass, ...] = ()
    """For the annotation load.pinfold.dev."""
    profiles: tuple[Profile, ...] = ()
    racks: Mapping[str, Rack] = msgspec.field(default_factory=dict[str, Rack])
    """By the value of the label pinfold.dev/rack."""
    anti_affinity: ReplicaAntiAffinity = ReplicaAntiAffinity()
    """Of pods with one value of the label pinfold.dev/resource-set."""
    anti_affinity_limits: AntiAffinityLimits = AntiAffinityLimits()
    hard_affinity_weight: int = 1
    """The weight of a required affinity for the containers that it is about."""
    kube_compat: KubeCompat = KubeCompat.DOCUMENT
    during_execution: DuringExecution = DuringExecution()
    rebalance: RebalanceFields = RebalanceFields()

    scheduling_classes: tuple[SchedulingClass, ...] = ()
    namespace_scheduling_classes: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    pod_qos_scheduling_classes: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """By QoS class, in any case of letters."""
    cpu_classes: tuple[CpuClass, ...] = ()
    shared_pool_cpu_class: str | None = None
    reserved_pool_cpu_class: str | None = None
    default_exclusive_cpu_class: str | None = None
    controllable_interrupts: tuple[str, ...] = ("*",)
    """Globs over descriptions of interrupts; none means all."""

    agent: Agent = Agent()
    dra: Dra = Dra()
    control: Control = Control()
    log: Log = Log()
    instrumentation: Instrumentation = Instrumentation()

"""The table of all annotations: how each is written and what it is for."""

from msgspec import Struct

from ..text.suggestion import nearest

OWN_DOMAIN = "pinfold.dev"
NRI_DOMAIN = "resource-policy.nri.io"
CRI_DOMAIN = "cri-resource-manager.intel.com"
DOMAINS = (OWN_DOMAIN, NRI_DOMAIN, CRI_DOMAIN)
"""Where several give the same key at the same scope, the first counts."""

RESOURCES_KEY = "noderesource.dev/resources"
"""Requests and limits in JSON, written by a webhook; not of our domains."""

RACK_LABEL = "pinfold.dev/rack"
RESOURCE_SET_LABEL = "pinfold.dev/resource-set"
OWN_LABELS = (RACK_LABEL, RESOURCE_SET_LABEL)
"""Labels of pods that count: none of them is an annotation."""

RULE_KEYS = ("affinity", "pool-selector", "pool-name", "on-unsatisfiable")
"""Keys of our own of the required and preferred rules between containers, and about pools."""

_NEAR_LABEL = 0.8
_PEER = (NRI_DOMAIN, CRI_DOMAIN)
_OWN = (OWN_DOMAIN,)
_BOOL = "true or false"
_LIST = 4096
"""Characters of lists of patterns or paths."""
_TEXT = 64 * 1024


class KnownKey(Struct, frozen=True, kw_only=True):
    """One row of the table: how a key is written and what it means."""

    name: str
    domains: tuple[str, ...]
    values: str
    meaning: str
    is_plain: bool = False
    fields: tuple[str, ...] = ()
    """Of values that are mappings: their fields."""
    characters_max: int = 1024
    """Of a value: no list of words is longer."""

    def written(self, domain: str) -> str:
        """The key as a pod's author writes it for the whole pod."""
        return f"{domain}/{self.name}" if self.is_plain else f"{self.name}.{domain}/pod"


def _scoped(
    name: str,
    values: str,
    meaning: str,
    domains: tuple[str, ...] = _PEER,
    fields: tuple[str, ...] = (),
    characters_max: int = 1024,
) -> KnownKey:
    return KnownKey(
        name=name,
        domains=domains,
        values=values,
        meaning=meaning,
        fields=fields,
        characters_max=characters_max,
    )


def _plain(name: str, meaning: str) -> KnownKey:
    values = "rules by container name"
    return KnownKey(name=name, domains=DOMAINS, values=values, meaning=meaning, is_plain=True)


_LEVELS = "system, package, die, numa, l3cache, l2cache, core or thread"
_PATHS = "'type: prefix' or 'type: glob', and 'paths: [..]'"

KEYS: tuple[KnownKey, ...] = (
    _scoped("prefer-isolated-cpus", _BOOL, "take exclusive cpus from the kernel-isolated ones"),
    _scoped("require-isolated-cpus", _BOOL, "the same, and fail where there are too few"),
    _scoped("prefer-shared-cpus", _BOOL, "no exclusive cpus, although the request would give some"),
    _scoped(
        "prefer-cpu-priority",
        "high, normal, low, none or default",
        "which kind of cpus exclusive ones should be",
    ),
    _scoped("prefer-reserved-cpus", _BOOL, "run on the cpus reserved for system tasks"),
    _scoped(
        "hide-hyperthreads",
        "true, false or whole-cores",
        "use one thread of each core and leave the others idle",
    ),
    _scoped("memory-type", "some of dram, pmem, hbm, cxl, or mixed", "the memory to be near"),
    _scoped(
        "cold-start",
        "'duration: 10s', at most 1h",
        "begin without dram, which is added after that time",
        fields=("duration",),
    ),
    _scoped("cpu.preserve", "true", "leave the cpus of the container alone"),
    _scoped("memory.preserve", "true", "leave the memory nodes of the container alone"),
    _scoped("pick-resources-by-hints", _BOOL, "take exclusive cpus near the devices"),
    _scoped("unlimited-burstable", _LEVELS, "how wide a container without cpu limit may spread"),
    _scoped("scheduling-class", "the name of a class", "scheduling parameters of the processes"),
    _scoped("cpu-class", "the name of a class", "frequency parameters of the exclusive cpus"),
    _scoped(
        "irq-affinity",
        "'claim: [..]', 'mask: [..]', 'devices: [..]' and 'mode: mask-first' or 'claim-first'",
        "interrupts to get on the exclusive cpus, or to keep away",
        fields=("claim", "mask", "devices", "mode"),
        characters_max=_LIST,
    ),
    _scoped(
        "topologyhints",
        "true, false, or some of mounts, devices, pod-resources, all, none",
        "what the container should be near",
    ),
    _scoped(
        "allow.topologyhints",
        _PATHS,
        "hints that a deny is not for",
        fields=("type", "paths"),
        characters_max=_LIST,
    ),
    _scoped(
        "deny.topologyhints",
        _PATHS,
        "hints to leave out",
        fields=("type", "paths"),
        characters_max=_LIST,
    ),
    _scoped("strict.topologyhints", _BOOL, "fail where hints cannot be followed"),
    _scoped("test.topologyhints", "hints by provider", "hints for tests", characters_max=_TEXT),
    _scoped("rdtclass", "the name of a class", "cache and memory bandwidth class"),
    _scoped("blockioclass", "the name of a class", "block device bandwidth class"),
    _scoped("toptierlimit", "an amount of memory", "known, without effect"),
    _plain("affinity", "which containers to be near"),
    _plain("anti-affinity", "which containers to keep away from"),
    _scoped(
        "affinity",
        "podAffinity, podAntiAffinity, poolAffinity and topologySpread, as in Kubernetes",
        "rules at a level of the machine, required or preferred",
        _OWN,
        ("podAffinity", "podAntiAffinity", "poolAffinity", "topologySpread"),
        characters_max=_TEXT,
    ),
    _scoped("pool-selector", "'label=value, ..'", "the labels a pool must have", _OWN),
    _scoped("pool-name", "the name of a pool", "the pool to use", _OWN),
    _scoped("on-unsatisfiable", "fail or degrade", "what to do if a required rule fails", _OWN),
    _scoped("exclusive", "a number of cpus, or request", "cpus for itself, of any class", _OWN),
    _scoped(
        "idle-cpus", "l3, numa or socket", "where it may use cpus that are nobody's, too", _OWN
    ),
    _scoped("near-device", "a device or a resource", "the device to be near, and no other", _OWN),
    _scoped("load", "the name of a class", "what it loads, to keep away from its like", _OWN),
    _scoped("quota", "keep or lift", "whether its cpu limit holds on cpus of its own", _OWN),
    _scoped("memory", "interleave", "how its memory lies on the memory nodes", _OWN),
    _scoped("smt", "pack, spread, hide or any", "how to use the threads of cores", _OWN),
    _scoped("pod-pool", _BOOL, "one set of cpus for the whole pod, its containers inside", _OWN),
    _scoped("group", "a name", "one set of cpus with others of the namespace and name", _OWN),
    _scoped("move", "never or allowed", "whether a rebalance may move it while it runs", _OWN),
)


def near_label(name: str) -> str | None:
    """The label of ours that a name under our domain is, or is alike; None for all others.

    >>> near_label("racks"), near_label("smt")
    ('pinfold.dev/rack', None)
    """
    near = nearest(name, [label.partition("/")[2] for label in OWN_LABELS], _NEAR_LABEL)
    return near and f"{OWN_DOMAIN}/{near}"


def domain_of(key: str) -> str | None:
    """The domain of ours that an annotation is under; None for those of others.

    >>> domain_of("smt.pinfold.dev/pod"), domain_of("pinfold.dev/affinity"), domain_of("app")
    ('pinfold.dev', 'pinfold.dev', None)
    """
    prefix = key.partition("/")[0]
    for domain in DOMAINS:
        if prefix == domain or prefix.endswith(f".{domain}"):
            return domain
    return None

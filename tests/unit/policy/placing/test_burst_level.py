"""How wide a container without a cpu limit may spread that has rules about others."""

from textwrap import dedent

import pytest

from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.model.cpu_preference import BurstLevel
from pinfold.policy.model.grant import Grant
from pinfold.policy.placing.classifier import Classifier
from pinfold.topology.made.spec import machine_from_spec

AFFINITY = "resource-policy.nri.io/affinity"
LEVELS = "affinity.pinfold.dev/pod"
SYMMETRIC = Config(symmetric_affinity=True)

ONE_WAY = "web:\n- match: {key: name, operator: Equals, values: [cache]}"
BOTH_WAYS = f"{ONE_WAY}\n  symmetric: true"
SHORTHAND = "web: [cache]"
APART = """\
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {matchLabels: {app: web}}, topologyKey: numa}
"""
NEAR = """\
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 5
        podAffinityTerm: {labelSelector: {matchLabels: {app: cache}}, topologyKey: l3}
"""
EVEN = """\
    topologySpread:
    - maxSkew: 1
      topologyKey: die
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {matchLabels: {app: web}}
"""
SPREAD = {"unlimited-burstable.resource-policy.nri.io/pod": "system"}

WIDTHS = [
    pytest.param({}, Config(), BurstLevel.PACKAGE, id="as the configuration says without rules"),
    pytest.param({AFFINITY: ONE_WAY}, Config(), BurstLevel.PACKAGE, id="nobody later comes to it"),
    pytest.param({AFFINITY: ONE_WAY}, SYMMETRIC, BurstLevel.THREAD, id="all rules are symmetric"),
    pytest.param({AFFINITY: BOTH_WAYS}, Config(), BurstLevel.THREAD, id="its rule is symmetric"),
    pytest.param({AFFINITY: SHORTHAND}, Config(), BurstLevel.PACKAGE, id="shorthand as ever"),
    pytest.param({AFFINITY: SHORTHAND}, SYMMETRIC, BurstLevel.THREAD, id="symmetric shorthand"),
    pytest.param({LEVELS: APART}, Config(), BurstLevel.NUMA, id="one domain to be alone in"),
    pytest.param({LEVELS: NEAR}, Config(), BurstLevel.L3_CACHE, id="one domain to be joined in"),
    pytest.param({LEVELS: EVEN}, Config(), BurstLevel.DIE, id="one domain to be counted in"),
    pytest.param({LEVELS: NEAR + APART}, Config(), BurstLevel.L3_CACHE, id="the narrowest rule"),
    pytest.param({AFFINITY: SHORTHAND, **SPREAD}, SYMMETRIC, BurstLevel.SYSTEM, id="its own word"),
]


def container(
    name: str, annotations: dict[str, str], milli: int = 500, pod: str = "shop"
) -> Container:
    return Container(
        id=ContainerId(f"{pod}-{name}"),
        name=name,
        pod=Pod(
            id=PodId(pod),
            name=pod,
            namespace="default",
            annotations={key: dedent(text) for key, text in annotations.items()},
            qos=QosClass.BURSTABLE,
        ),
        resources=Resources(cpu_request_milli=milli),
    )


@pytest.mark.parametrize(("annotations", "config", "level"), WIDTHS)
def test_a_container_spreads_as_wide_as_its_burst_level(
    annotations: dict[str, str], config: Config, level: BurstLevel
) -> None:
    found = Classifier(config).classify(container("web", annotations))
    assert found.request.burst_level is level


def test_a_rule_wider_than_the_configured_level_widens_nothing() -> None:
    config = Config(unlimited_burstable=BurstLevel.NUMA)
    socket = {LEVELS: NEAR.replace("l3", "socket")}
    found = Classifier(config).classify(container("web", socket))
    assert found.request.burst_level is BurstLevel.NUMA


AWAITED = [
    pytest.param({}, Config(), False, id="nobody without rules"),
    pytest.param({}, SYMMETRIC, True, id="anybody where all rules are symmetric"),
    pytest.param({AFFINITY: ONE_WAY}, Config(), False, id="nobody who comes later"),
    pytest.param({AFFINITY: BOTH_WAYS}, Config(), True, id="its friend, as it says itself"),
    pytest.param({AFFINITY: f"{BOTH_WAYS}\n  weight: -1"}, Config(), False, id="no enemy"),
]


@pytest.mark.parametrize(("annotations", "config", "awaits"), AWAITED)
def test_a_container_leaves_room_for(
    annotations: dict[str, str], config: Config, awaits: bool
) -> None:
    found = Classifier(config).classify(container("web", annotations))
    assert found.request.awaits_friends is awaits


def test_groups_begin_where_there_is_most_room_around() -> None:
    engine = Engine(machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:4G"), SYMMETRIC)
    pods = ("shop", "bank", "farm", "mill")
    pools = [
        engine.create(container("web", {AFFINITY: BOTH_WAYS}, milli=3000, pod=pod)).pool
        for pod in pods
    ]
    # Sockets in turn, and a NUMA node for each.
    assert pools == ["NUMA node #2", "NUMA node #1", "NUMA node #3", "NUMA node #0"]


FRIENDS = [
    pytest.param({AFFINITY: BOTH_WAYS}, Config(), "NUMA node #1", id="in one NUMA node, by a rule"),
    pytest.param({AFFINITY: SHORTHAND}, SYMMETRIC, "NUMA node #1", id="in one, by shorthand"),
    pytest.param({AFFINITY: SHORTHAND}, Config(), "socket #0", id="in one socket by default"),
    pytest.param({}, Config(), "socket #0", id="in one socket without rules"),
]


@pytest.mark.parametrize(("annotations", "config", "pool"), FRIENDS)
def test_friends_without_a_limit_meet(
    annotations: dict[str, str], config: Config, pool: str
) -> None:
    engine = Engine(machine_from_spec("socket:2 numa:2 core:4 thread:2 mem:4G"), config)
    engine.create(container("other", {}, milli=5000, pod="filler"))
    for name in ("web", "cache"):
        engine.create(container(name, annotations))
    snapshot = engine.snapshot()
    grants = [snapshot.grants[ContainerId(f"shop-{name}")] for name in ("web", "cache")]
    assert all(isinstance(one, Grant) for one in grants)
    assert {snapshot.tree.pools[one.pool_id].name for one in grants} == {pool}

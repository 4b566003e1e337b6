import pytest
from msgspec import structs

from pinfold.policy.model.container import QosClass, Resources
from pinfold.policy.model.kubelet_resources import (
    LinuxResources,
    as_told,
    estimate,
    linux_resources,
    may_request_memory,
    merge,
    parse_page_size,
    qos_of_cgroup,
)

GIB = 1 << 30


@pytest.mark.parametrize(
    ("path", "qos"),
    [
        pytest.param("/kubepods/burstable/pod7c", QosClass.BURSTABLE, id="cgroupfs burstable"),
        pytest.param("/kubepods/besteffort/pod7c", QosClass.BEST_EFFORT, id="cgroupfs best effort"),
        pytest.param("/kubepods/pod7c", QosClass.GUARANTEED, id="cgroupfs guaranteed"),
        pytest.param(
            "/kubelet/kubepods/burstable/pod7c", QosClass.BURSTABLE, id="below another root"
        ),
        pytest.param(
            "kubepods-burstable-pod7c_1.slice", QosClass.BURSTABLE, id="systemd burstable"
        ),
        pytest.param(
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod7c.slice",
            QosClass.BEST_EFFORT,
            id="systemd as a full path",
        ),
        pytest.param(
            "/kubepods.slice/kubepods-pod7c.slice", QosClass.GUARANTEED, id="systemd guaranteed"
        ),
        pytest.param(
            "kubelet-kubepods-burstable-pod7c.slice",
            QosClass.BURSTABLE,
            id="systemd below another root",
        ),
        pytest.param(
            "/kubepods/podbesteffort-1", QosClass.GUARANTEED, id="a pod named like a class"
        ),
        pytest.param(
            "kubepods-burstable-podbesteffort.slice",
            QosClass.BURSTABLE,
            id="a systemd pod named like another class",
        ),
        pytest.param(
            "/burstable-team/kubepods/pod7c", QosClass.GUARANTEED, id="a root named like a class"
        ),
        pytest.param(
            "/kubepods/system/burstable/pod7c", QosClass.BURSTABLE, id="in a partition, cgroupfs"
        ),
        pytest.param(
            "/kubepods.slice/kubepods-system.slice/kubepods-system-besteffort.slice"
            "/kubepods-system-besteffort-pod7c.slice",
            QosClass.BEST_EFFORT,
            id="in a partition, systemd",
        ),
        pytest.param("/kubepods/system/pod7c", QosClass.GUARANTEED, id="guaranteed in a partition"),
        pytest.param(
            "/kubepods/besteffort/burstable/pod7c", QosClass.BURSTABLE, id="the deepest class"
        ),
        pytest.param(
            "/kubepods/burstable/pod7c/0a1b2c", QosClass.BURSTABLE, id="a container, cgroupfs"
        ),
        pytest.param(
            "kubepods-burstable-pod7c.slice:cri-containerd:0a1b2c",
            QosClass.BURSTABLE,
            id="a container, systemd",
        ),
        pytest.param(
            "kubepods-pod7c.slice:crio:besteffort",
            QosClass.GUARANTEED,
            id="a container named like a class",
        ),
        pytest.param("/kubepods/system", QosClass.BURSTABLE, id="a partition and no pod"),
        pytest.param("", QosClass.BURSTABLE, id="no path"),
        pytest.param("/system.slice", QosClass.BURSTABLE, id="no pod of the kubelet"),
    ],
)
def test_qos_class_is_the_deepest_component_that_names_one(path: str, qos: QosClass) -> None:
    assert qos_of_cgroup(path) is qos


@pytest.mark.parametrize(
    ("shares", "milli"),
    [
        pytest.param(0, 0, id="unset"),
        pytest.param(2, 0, id="the least there is"),
        pytest.param(3, 3, id="3m is the first request that shows"),
        pytest.param(1022, 999, id="999m stays 999m"),
        pytest.param(1024, 1000, id="one cpu"),
        pytest.param(1536, 1500, id="one and a half"),
    ],
)
def test_cpu_request_is_the_one_that_gives_these_shares(shares: int, milli: int) -> None:
    found = estimate(LinuxResources(cpu_shares=shares), QosClass.BURSTABLE, None)
    assert found.cpu_request_milli == milli


def test_every_request_survives_the_kubelets_rounding() -> None:
    for milli in [*range(3, 5000), 17_999, 100_001, 255_999, 256_000]:
        linux = linux_resources(Resources(cpu_request_milli=milli), QosClass.BURSTABLE, None)
        assert estimate(linux, QosClass.BURSTABLE, None).cpu_request_milli == milli


@pytest.mark.parametrize(("milli", "told"), [(0, 0), (1, 0), (2, 0), (3, 3), (500_000, 500_000)])
def test_what_a_runtime_can_tell_of_a_request(milli: int, told: int) -> None:
    asked = Resources(cpu_request_milli=milli)
    assert as_told(asked, QosClass.GUARANTEED) == Resources(cpu_request_milli=told)


@pytest.mark.parametrize(
    ("linux", "qos", "may"),
    [
        pytest.param(LinuxResources(oom_score_adj=999), "BURSTABLE", True, id="next to nothing"),
        pytest.param(LinuxResources(oom_score_adj=997), "BURSTABLE", True, id="or shifted so"),
        pytest.param(LinuxResources(), "BURSTABLE", True, id="nothing is told"),
        pytest.param(LinuxResources(oom_score_adj=750), "BURSTABLE", False, id="it is known"),
        pytest.param(LinuxResources(memory_request_bytes=0), "BURSTABLE", False, id="exactly none"),
        pytest.param(LinuxResources(oom_score_adj=-997), "GUARANTEED", False, id="its limit is it"),
        pytest.param(LinuxResources(oom_score_adj=1000), "BEST_EFFORT", False, id="it has none"),
    ],
)
def test_a_memory_request_too_small_to_be_told_is_not_excluded(
    linux: LinuxResources, qos: str, *, may: bool
) -> None:
    assert estimate(linux, QosClass[qos], 1 << 40).may_request_memory is may


@pytest.mark.parametrize("request_mib", [0, 64, 600, 2048, 8192])
def test_paper_and_wire_agree_on_whether_memory_is_perhaps_asked_for(request_mib: int) -> None:
    asked = Resources(memory_request_bytes=request_mib << 20)
    linux = linux_resources(asked, QosClass.BURSTABLE, 512 * GIB)
    on_paper = as_told(asked, QosClass.BURSTABLE)
    on_the_wire = estimate(linux, QosClass.BURSTABLE, 512 * GIB)
    for one in (on_paper, on_the_wire):
        assert one.may_request_memory or one.memory_request_bytes


def test_guaranteed_limit_is_the_request_and_memory_request_the_limit() -> None:
    linux = LinuxResources(cpu_shares=2048, cpu_quota=-1, memory_limit_bytes=GIB)
    assert estimate(linux, QosClass.GUARANTEED, 8 * GIB) == Resources(
        cpu_request_milli=2000,
        cpu_limit_milli=2000,
        memory_request_bytes=GIB,
        memory_limit_bytes=GIB,
    )


def test_guaranteed_request_beyond_the_largest_shares_is_read_from_the_quota() -> None:
    asked = Resources(cpu_request_milli=300_000, cpu_limit_milli=300_000)
    linux = linux_resources(asked, QosClass.GUARANTEED, None)
    assert linux.cpu_shares == 262144
    assert estimate(linux, QosClass.GUARANTEED, None).cpu_request_milli == 300_000


@pytest.mark.parametrize(
    ("quota", "period", "milli"),
    [
        pytest.param(150_000, 100_000, 1500, id="the usual period"),
        pytest.param(50_000, 0, 500, id="no period means the kernel's default"),
        pytest.param(4_166, 12_500, 334, id="odd periods round up"),
        pytest.param(0, 100_000, None, id="0 is no limit"),
        pytest.param(-1, 100_000, None, id="negative is no limit"),
    ],
)
def test_cpu_limit_is_read_from_the_quota(quota: int, period: int, milli: int | None) -> None:
    linux = LinuxResources(cpu_quota=quota, cpu_period=period)
    assert estimate(linux, QosClass.BURSTABLE, None).cpu_limit_milli == milli


@pytest.mark.parametrize(
    ("adjustment", "limit", "request_bytes"),
    [
        pytest.param(750, 0, 250_000, id="a quarter of the memory"),
        pytest.param(3, 0, 997_000, id="nearly all of it"),
        pytest.param(750, 200_000, 200_000, id="never more than the limit"),
        pytest.param(999, 0, 0, id="the smallest request cannot be told from none"),
        pytest.param(999, 400_000, 1_000, id="but by a limit: no request would be the limit"),
        pytest.param(999, 700, 700, id="the smallest one with a limit below it"),
        pytest.param(-997, 0, 0, id="an adjustment the kubelet never gives to Burstable"),
        pytest.param(None, 0, 0, id="no adjustment"),
    ],
)
def test_burstable_memory_request_is_read_from_the_oom_adjustment(
    adjustment: int | None, limit: int, request_bytes: int
) -> None:
    linux = LinuxResources(oom_score_adj=adjustment, memory_limit_bytes=limit)
    found = estimate(linux, QosClass.BURSTABLE, 1_000_000)
    assert found.memory_request_bytes == request_bytes


@pytest.mark.parametrize("request_mib", [1, 7, 100, 1000, 3000, 7900])
def test_estimated_memory_request_has_the_same_adjustment_and_is_not_more(request_mib: int) -> None:
    asked = Resources(memory_request_bytes=request_mib << 20)
    linux = linux_resources(asked, QosClass.BURSTABLE, 8 * GIB)
    found = estimate(linux, QosClass.BURSTABLE, 8 * GIB)
    assert 0 <= asked.memory_request_bytes - found.memory_request_bytes <= 8 * GIB // 1000
    assert linux_resources(found, QosClass.BURSTABLE, 8 * GIB) == linux


@pytest.mark.parametrize("nudge", [0, 1, 4])
def test_estimated_memory_request_is_never_more_than_what_was_asked_for(nudge: int) -> None:
    # Newer kubelets take off up to 4 on a machine of 1 TiB.
    asked = Resources(memory_request_bytes=20 * GIB)
    linux = linux_resources(asked, QosClass.BURSTABLE, 1024 * GIB)
    assert linux.oom_score_adj is not None
    linux = structs.replace(linux, oom_score_adj=linux.oom_score_adj - nudge)
    found = estimate(linux, QosClass.BURSTABLE, 1024 * GIB)
    assert 15 * GIB <= found.memory_request_bytes <= 20 * GIB


@pytest.mark.parametrize(
    ("exact", "limit", "request_bytes"),
    [
        pytest.param(7777, 0, 7777, id="wins over the adjustment"),
        pytest.param(None, 0, 250_000, id="nothing protected, the adjustment tells"),
        pytest.param(7777, 5000, 5000, id="never more than the limit"),
    ],
)
def test_protected_memory_is_the_exact_memory_request(
    exact: int | None, limit: int, request_bytes: int
) -> None:
    linux = LinuxResources(oom_score_adj=750, memory_limit_bytes=limit, memory_request_bytes=exact)
    found = estimate(linux, QosClass.BURSTABLE, 1_000_000)
    assert found.memory_request_bytes == request_bytes


@pytest.mark.parametrize(
    ("request_bytes", "linux", "may"),
    [
        pytest.param(250_500, LinuxResources(oom_score_adj=750), True, id="within its thousandth"),
        pytest.param(100_000, LinuxResources(oom_score_adj=750), True, id="less, as for sidecars"),
        pytest.param(260_000, LinuxResources(oom_score_adj=750), False, id="much more"),
        pytest.param(1_000, LinuxResources(oom_score_adj=999), True, id="next to nothing"),
        pytest.param(
            9_000, LinuxResources(oom_score_adj=999), False, id="more than next to nothing"
        ),
        pytest.param(1_000_000, LinuxResources(oom_score_adj=3), True, id="nearly all there is"),
        pytest.param(1_100_000, LinuxResources(oom_score_adj=3), False, id="more than there is"),
        pytest.param(
            1, LinuxResources(oom_score_adj=-997), False, id="a pod of the node, no limit"
        ),
        pytest.param(
            400,
            LinuxResources(oom_score_adj=-997, memory_limit_bytes=400),
            True,
            id="up to its limit",
        ),
        pytest.param(
            401, LinuxResources(oom_score_adj=-997, memory_limit_bytes=400), False, id="beyond it"
        ),
        pytest.param(1, LinuxResources(), False, id="nothing is known"),
        pytest.param(0, LinuxResources(), True, id="nothing is asked for"),
        pytest.param(
            8, LinuxResources(memory_request_bytes=8), True, id="exactly what is protected"
        ),
        pytest.param(7, LinuxResources(memory_request_bytes=8), False, id="not what is protected"),
    ],
)
def test_a_memory_request_is_bounded_by_what_the_kubelet_wrote(
    request_bytes: int, linux: LinuxResources, *, may: bool
) -> None:
    assert may_request_memory(request_bytes, linux, 1_000_000) is may


def test_best_effort_asks_for_nothing() -> None:
    linux = linux_resources(Resources(), QosClass.BEST_EFFORT, GIB)
    assert (linux.cpu_shares, linux.oom_score_adj) == (2, 1000)
    assert estimate(linux, QosClass.BEST_EFFORT, GIB) == Resources()


def test_update_keeps_what_it_does_not_set() -> None:
    current = LinuxResources(
        cpu_shares=1024, cpu_quota=100_000, cpu_period=100_000, memory_limit_bytes=GIB
    )
    assert merge(current, LinuxResources()) == current
    protected = LinuxResources(memory_request_bytes=8)
    assert merge(protected, LinuxResources()) == protected
    assert merge(current, protected).memory_request_bytes == 8
    assert merge(current, LinuxResources(cpu_shares=512, cpu_quota=-1)) == LinuxResources(
        cpu_shares=512, cpu_quota=-1, cpu_period=100_000, memory_limit_bytes=GIB
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2MB", 2 << 20),
        ("1GB", 1 << 30),
        ("64KB", 65536),
        ("2Mi", None),
        ("MB", None),
        ("", None),
        ("0MB", None),
    ],
)
def test_page_size_is_read_in_the_kernels_notation(text: str, size: int | None) -> None:
    assert parse_page_size(text) == size

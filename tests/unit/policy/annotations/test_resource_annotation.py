"""Requests and limits of a webhook: read, and held against what the kubelet wrote."""

import json

import pytest
from msgspec import structs

from pinfold.policy.annotations.resource_annotation import (
    ResourceClaim,
    parse_claim,
    refined_resources,
)
from pinfold.policy.model.container import Pod, PodId, QosClass, Resources
from pinfold.policy.model.kubelet_resources import LinuxResources, estimate, linux_resources
from pinfold.policy.text.errors import ConfigError

GIB = 1 << 30
MEMORY = 64 * GIB
GUARANTEED, BURSTABLE, BEST_EFFORT = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT

ONE_CPU = Resources(
    cpu_request_milli=1000,
    cpu_limit_milli=1000,
    memory_request_bytes=GIB,
    memory_limit_bytes=GIB,
)
TENTH = Resources(cpu_request_milli=100, memory_request_bytes=GIB)
LIMITED = Resources(cpu_request_milli=100, cpu_limit_milli=2000, memory_limit_bytes=GIB)
WIDE = structs.replace(ONE_CPU, cpu_request_milli=300_000, cpu_limit_milli=300_000)

Amounts = dict[str, object]


def entry(requests: Amounts | None = None, limits: Amounts | None = None) -> str:
    web = {"requests": requests or {}, "limits": limits or {}}
    return json.dumps({"containers": {"web": web}})


def refined(
    text: str, linux: LinuxResources, qos: QosClass, *, is_running: bool = False
) -> tuple[Resources, list[str]]:
    """What is made of an annotation beside these cgroup values, and the complaints."""
    annotations = {"noderesource.dev/resources": text}
    pod = Pod(id=PodId("p"), name="shop", annotations=annotations, qos=qos)
    known = estimate(linux, qos, MEMORY)
    found, problems = refined_resources(known, linux, pod, "web", MEMORY, is_running=is_running)
    return found, [str(problem) for problem in problems]


def test_annotation_gives_the_exact_amounts() -> None:
    text = (
        '{"containers": {"web": {"requests": {"cpu": "1m", "memory": "100Mi"},'
        ' "limits": {"cpu": 2, "memory": "1Gi", "hugepages-2Mi": "4Mi"}}},'
        ' "initContainers": {"once": {"limits": {"cpu": "500m"}}}}'
    )
    assert parse_claim(text, "web") == ResourceClaim(
        cpu_request_milli=1,
        cpu_limit_milli=2000,
        memory_request_bytes=100 << 20,
        memory_limit_bytes=GIB,
    )
    assert parse_claim(text, "once") == ResourceClaim(cpu_request_milli=500, cpu_limit_milli=500)
    assert parse_claim(text, "other") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{", "not JSON", id="broken JSON"),
        pytest.param("[" * 100_000, "not JSON", id="endless nesting"),
        pytest.param("1" * 9999, "not JSON", id="a number of thousands of digits"),
        pytest.param("[]", "not a JSON object", id="a list"),
        pytest.param('{"containers": {"web": 3}}', "'3' is not a JSON object", id="no entry"),
        pytest.param(entry({"cpu": "lots"}), "'lots'", id="no amount"),
        pytest.param(entry({"cpu": True}), "'True' is not", id="a boolean"),
        pytest.param(entry(limits={"hugepages-0": "2Mi"}), "'0' is no size", id="pages of nothing"),
        pytest.param(entry(limits={"hugepages-x": "2Mi"}), "'x'", id="pages of no size"),
        pytest.param(entry(limits={"hugepages-2Mi": "x"}), "'x'", id="so many pages"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_reported(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_claim(text, "web")
    linux = linux_resources(ONE_CPU, GUARANTEED, MEMORY)
    found, [told] = refined(text, linux, GUARANTEED)
    assert found == ONE_CPU
    assert told.startswith("noderesource.dev/resources of default/shop/web: ")
    assert complaint in told
    assert " — " in told
    assert len(told) < 400


@pytest.mark.parametrize(
    ("asked", "qos", "text", "expected"),
    [
        pytest.param(
            structs.replace(TENTH, cpu_request_milli=1),
            BURSTABLE,
            entry({"cpu": "1m", "memory": "1Gi"}),
            structs.replace(TENTH, cpu_request_milli=1),
            id="1m, which looks like nothing",
        ),
        pytest.param(
            TENTH,
            BURSTABLE,
            entry({"cpu": "100m", "memory": GIB}),
            TENTH,
            id="a memory request between two thousandths",
        ),
        pytest.param(
            LIMITED,
            BURSTABLE,
            entry({"cpu": "100m"}, {"cpu": "2", "memory": "1Gi"}),
            structs.replace(LIMITED, memory_request_bytes=GIB),
            id="a request left out is the limit",
        ),
        pytest.param(
            ONE_CPU,
            GUARANTEED,
            entry(limits={"cpu": "1", "memory": "1Gi"}),
            ONE_CPU,
            id="limits that are the requests",
        ),
        pytest.param(
            ONE_CPU,
            GUARANTEED,
            entry({"cpu": "1"}),
            ONE_CPU,
            id="what it does not say is what the kubelet wrote",
        ),
        pytest.param(
            WIDE,
            GUARANTEED,
            entry({"cpu": 300, "memory": GIB}, {"cpu": 300, "memory": GIB}),
            WIDE,
            id="more cpus than shares can tell, as the quota says",
        ),
        pytest.param(
            structs.replace(LIMITED, cpu_request_milli=280_000, cpu_limit_milli=300_000),
            BURSTABLE,
            entry({"cpu": 280}, {"cpu": 300}),
            structs.replace(
                LIMITED,
                cpu_request_milli=280_000,
                cpu_limit_milli=300_000,
                # It says nothing of memory: what the limit and the OOM score tell stands.
                memory_request_bytes=-(-MEMORY // 1000),
            ),
            id="more cpus than shares can tell, within the quota",
        ),
        pytest.param(
            Resources(), BEST_EFFORT, entry(), Resources(), id="nothing for a BestEffort pod"
        ),
    ],
)
def test_an_annotation_that_agrees_is_believed(
    asked: Resources, qos: QosClass, text: str, expected: Resources
) -> None:
    linux = linux_resources(asked, qos, MEMORY)
    if asked is LIMITED:
        linux = structs.replace(linux, oom_score_adj=984)
    assert refined(text, linux, qos) == (expected, [])


@pytest.mark.parametrize(
    ("asked", "qos", "text", "complaint"),
    [
        pytest.param(
            ONE_CPU,
            GUARANTEED,
            entry({"cpu": 12}, {"cpu": 12}),
            "a cpu limit of 12000m, and the kubelet was asked for 1000m",
            id="twelve cpus of a pod with one",
        ),
        pytest.param(
            structs.replace(ONE_CPU, cpu_limit_milli=None),
            GUARANTEED,
            entry({"cpu": 12}, {"cpu": 12}),
            "a cpu request of 12000m, and the kubelet was asked for 1000m",
            id="twelve cpus where no quota is set",
        ),
        pytest.param(
            TENTH, BURSTABLE, entry({"cpu": 8}), "a cpu request of 8000m", id="eight for a tenth"
        ),
        pytest.param(TENTH, BURSTABLE, entry({"cpu": "99m"}), "99m", id="less than it asked for"),
        pytest.param(
            LIMITED,
            BURSTABLE,
            entry({"cpu": "100m"}, {"cpu": 3}),
            "a cpu limit of 3000m",
            id="another cpu limit",
        ),
        pytest.param(
            TENTH, BURSTABLE, entry({"memory": "2Gi"}), "a memory request", id="more memory"
        ),
        pytest.param(
            LIMITED, BURSTABLE, entry({"memory": "2Gi"}), "a memory request", id="beyond its limit"
        ),
        pytest.param(
            TENTH,
            BURSTABLE,
            entry(limits={"memory": "2Gi"}),
            "a memory limit",
            id="a limit nobody set",
        ),
        pytest.param(
            ONE_CPU, GUARANTEED, entry({"memory": 1}), "a memory request of 1,", id="less memory"
        ),
        pytest.param(
            Resources(), BEST_EFFORT, entry({"cpu": "1m"}), "BestEffort", id="a BestEffort pod"
        ),
        pytest.param(
            Resources(), BURSTABLE, entry({"cpu": "1e999"}), "a cpu request", id="all the world's"
        ),
    ],
)
def test_an_annotation_that_disagrees_is_not_believed(
    asked: Resources, qos: QosClass, text: str, complaint: str
) -> None:
    linux = linux_resources(asked, qos, MEMORY)
    found, [told] = refined(text, linux, qos)
    assert found == estimate(linux, qos, MEMORY)
    assert complaint in told
    assert refined(text, linux, qos, is_running=True) == (found, []), "it may have been resized"


def test_requests_beyond_all_shares_count_only_as_far_as_a_quota_shows_them() -> None:
    linux = structs.replace(linux_resources(WIDE, GUARANTEED, MEMORY), cpu_quota=-1)
    found, problems = refined(entry({"cpu": 100_000}), linux, GUARANTEED)
    assert (found.cpu_request_milli, problems) == (256_000, [])


def test_huge_pages_are_those_of_the_cgroup() -> None:
    asked = structs.replace(ONE_CPU, hugepage_bytes={2 << 20: 4 << 20})
    linux = linux_resources(asked, GUARANTEED, MEMORY)
    found, _ = refined(entry(limits={"hugepages-1Gi": "8Gi"}), linux, GUARANTEED)
    assert found.hugepage_bytes == {2 << 20: 4 << 20}

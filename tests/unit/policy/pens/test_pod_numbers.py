"""Numbers of a pod with resources of its own, read off what its containers show."""

import pytest
from msgspec.structs import replace

from pinfold.policy.model.container import Container, ContainerId, Pod, PodId, QosClass, Resources
from pinfold.policy.pens.pod_numbers import with_pages

GIB = 2**30
PAGE = 2 << 20
WHOLE = Resources(
    cpu_request_milli=4000,
    cpu_limit_milli=4000,
    memory_request_bytes=4 * GIB,
    memory_limit_bytes=4 * GIB,
)
"""The size of the pod, as the runtime tells it: without pages."""
OWN = replace(WHOLE, cpu_request_milli=1000, cpu_limit_milli=1000)


def shown(*containers: tuple[Resources, int]) -> list[Container]:
    """Containers with the cpu and memory that they show, and as many huge pages."""
    pod = Pod(id=PodId("p"), name="p", qos=QosClass.GUARANTEED, resources=WHOLE)
    return [
        Container(
            id=ContainerId(f"c{number}"),
            name=f"c{number}",
            pod=pod,
            resources=replace(resources, hugepage_bytes={PAGE: pages} if pages else {}),
        )
        for number, (resources, pages) in enumerate(containers)
    ]


@pytest.mark.parametrize(
    ("containers", "pages"),
    [
        pytest.param([(WHOLE, 60)], 60, id="a container alone shows what its pod has"),
        pytest.param([(WHOLE, 60), (WHOLE, 60)], 60, id="two that show the pod's show the same"),
        pytest.param([(OWN, 60), (WHOLE, 60)], 60, id="so does one with cpus of its own"),
        pytest.param([(OWN, 20), (WHOLE, 60)], 60, id="a container's own pages are of the pod's"),
        pytest.param([(OWN, 20), (OWN, 20), (WHOLE, 60)], 60, id="those of several together, too"),
        pytest.param([(OWN, 20), (OWN, 60)], 80, id="where all have resources each has its own"),
        pytest.param([(OWN, 20), (WHOLE, 0)], 20, id="before 1.34 nobody shows the pod's"),
        pytest.param([(OWN, 90), (WHOLE, 60)], 150, id="a pod's are not less than a container's"),
        pytest.param([(OWN, 40), (OWN, 40), (WHOLE, 60)], 140, id="nor than those of two"),
        pytest.param([(WHOLE, 40), (WHOLE, 20)], 60, id="unlike ones are not the pod's"),
        pytest.param([(WHOLE, 0), (OWN, 0)], None, id="none"),
    ],
)
def test_huge_pages_of_a_pod_are_counted_once(
    containers: list[tuple[Resources, int]], pages: int | None
) -> None:
    size = with_pages(WHOLE, shown(*containers))
    assert size == replace(WHOLE, hugepage_bytes={} if pages is None else {PAGE: pages})

"""Numbers of a pod: its own resources, and whether its containers show these or their own.

Of a pod with resources of its own, each container without a limit has the pod's limit in its
cgroup, and its cpu shares, too: three of them seem to ask for three times the pod. Source: the
kubelet, `pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`; KEP 2837.
"""

from collections.abc import Iterable, Sequence

from msgspec import structs

from ..model.container import Container, QosClass, Resources
from ..model.request import Request


def are_of_pod(whole: Resources, containers: Sequence[Container]) -> bool:
    """Whether containers that run together seem to ask for more than their pod has.

    In other pods the sum of all requests, and of all limits, is the pod's.
    """
    cpu = sum(one.resources.cpu_request_milli for one in containers)
    if cpu > whole.cpu_request_milli and any(has_pod_cpu(whole, one) for one in containers):
        return True
    limit = whole.memory_limit_bytes
    limits = [one.resources.memory_limit_bytes for one in containers]
    return limit is not None and limit in limits and sum(filter(None, limits)) > limit


def has_pod_cpu(whole: Resources, container: Container) -> bool:
    """Whether a container's cpu numbers are, or may be, its pod's: it has none of its own.

    Without a request either, its shares are those of the pod's limit.
    """
    shown, limit = container.resources, whole.cpu_limit_milli
    if not limit or shown.cpu_limit_milli != limit:
        return False
    return shown.cpu_request_milli in (whole.cpu_request_milli, limit)


def shows_pod(whole: Resources, container: Container) -> bool:
    """Whether a container shows its pod's cpus and memory: a resize of it is one of the pod then.

    One with memory of its own may have come to as much cpu as its pod by itself.
    """
    memory = container.resources.memory_limit_bytes
    return has_pod_cpu(whole, container) and memory == whole.memory_limit_bytes


def resized_with(whole: Resources, before: Container, after: Container) -> Resources | None:
    """Size of a pod after a container that shows its numbers shows others; None where that is none.

    Not every runtime tells that a pod was resized; where one does, it tells the same again.
    """
    shown = after.resources
    cpu = whole.cpu_request_milli
    if after.pod.qos is QosClass.GUARANTEED:
        cpu = shown.cpu_request_milli
    memory, asked = whole.memory_limit_bytes, whole.memory_request_bytes
    if memory is not None and memory == before.resources.memory_limit_bytes:
        memory = shown.memory_limit_bytes
        if after.pod.qos is QosClass.GUARANTEED:
            asked = memory or 0
    size = structs.replace(
        whole,
        cpu_request_milli=cpu,
        cpu_limit_milli=shown.cpu_limit_milli,
        memory_request_bytes=asked,
        memory_limit_bytes=memory,
    )
    return None if size == whole else size


def enlarged(whole: Resources, total: Resources) -> Resources | None:
    """Size of a pod that has at least what its containers seem to ask for; None where it has."""
    cpu, memory = total.cpu_request_milli, total.memory_limit_bytes or 0
    limit = whole.memory_limit_bytes
    if cpu <= whole.cpu_request_milli and (limit is None or memory <= limit):
        return None
    return structs.replace(
        whole,
        cpu_request_milli=max(cpu, whole.cpu_request_milli),
        memory_request_bytes=max(total.memory_request_bytes, whole.memory_request_bytes),
        memory_limit_bytes=None if limit is None else max(memory, limit),
    )


def own_cpus(whole: Resources | None, container: Container) -> int:
    """Number of whole cpus that a container asks for as its own, by the kubelet's rule.

    The pod is Guaranteed, and the container has a limit and the same request, of whole cpus.
    """
    shown = container.resources
    if container.pod.qos is not QosClass.GUARANTEED:
        return 0
    if whole is not None and has_pod_cpu(whole, container):
        return 0
    if shown.cpu_limit_milli not in (None, shown.cpu_request_milli):
        return 0
    whole_cpus, rest = divmod(shown.cpu_request_milli, 1000)
    return 0 if rest else whole_cpus


def left_of_pod(
    request: Request,
    container: Container,
    whole: Resources,
    others: Sequence[tuple[Container, Request]],
) -> Request:
    """The request of a container of a pod whose numbers it or another carries, less what they have.

    Who carries them may have come first: then they hold what the container asks for, too.
    """
    milli, memory = request.shared_milli, request.memory_bytes
    shown, held = [*(other for other, _ in others), container], [one for _, one in others]
    if any(has_pod_cpu(whole, one) for one in shown):
        left = whole.cpu_request_milli - sum(one.shared_milli for one in held)
        milli = min(milli, max(left, 0))
    limit = whole.memory_limit_bytes
    carriers = shown if limit is not None else (container,)
    if any(limit == one.resources.memory_limit_bytes for one in carriers):
        left = (limit or 0) - sum(one.memory_bytes for one in held)
        memory = min(memory, max(left, 0))
    pages: dict[int, int] = {}
    if request.hugepage_bytes:
        totals = with_pages(whole, shown).hugepage_bytes
        for size, count in request.hugepage_bytes.items():
            left = totals[size] - sum(one.hugepage_bytes.get(size, 0) for one in held)
            if min(count, left) > 0:
                pages[size] = min(count, left)
    return structs.replace(request, shared_milli=milli, memory_bytes=memory, hugepage_bytes=pages)


def together(containers: Iterable[Container]) -> Resources:
    """Resources of several containers: sums, without a limit where one of them has none."""
    cpu = memory = 0
    cpu_limit: int | None = 0
    memory_limit: int | None = 0
    pages: dict[int, int] = {}
    for one in containers:
        asked = one.resources
        cpu += asked.cpu_request_milli
        memory += asked.memory_request_bytes
        cpu_limit = _sum(cpu_limit, asked.cpu_limit_milli)
        memory_limit = _sum(memory_limit, asked.memory_limit_bytes)
        for size, count in asked.hugepage_bytes.items():
            pages[size] = pages.get(size, 0) + count
    return Resources(
        cpu_request_milli=cpu,
        cpu_limit_milli=cpu_limit,
        memory_request_bytes=memory,
        memory_limit_bytes=memory_limit,
        hugepage_bytes=pages,
    )


def with_pages(size: Resources, containers: Iterable[Container]) -> Resources:
    """Size of a pod with the huge pages of its containers, where these have more than it.

    The kubelet tells the runtime of containers alone, since Kubernetes 1.34 of the pod's pages in
    each that has none of its own.
    """
    members = tuple(containers)
    pages = dict(size.hugepage_bytes)
    for page_bytes, total in together(members).hugepage_bytes.items():
        shared = _pages_of_pod(size, page_bytes, members)
        pages[page_bytes] = max(shared or total, pages.get(page_bytes, 0))
    return structs.replace(size, hugepage_bytes=pages) if pages else size


def _pages_of_pod(whole: Resources, page_bytes: int, containers: Sequence[Container]) -> int:
    """The huge pages that a pod has as a whole; 0 where its containers show none but their own.

    A container without cpu and memory of its own can have no pages of its own either: what all such
    containers show is the pod's, and those of others together are no more than that.
    """
    shown = [one.resources.hugepage_bytes.get(page_bytes, 0) for one in containers]
    carried = {count for one, count in zip(containers, shown, strict=True) if shows_pod(whole, one)}
    if len(carried) != 1:
        return 0
    (count,) = carried
    is_whole = max(shown) == count and sum(one for one in shown if one < count) <= count
    return count if is_whole else 0


def _sum(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more

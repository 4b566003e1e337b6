"""Pods and their containers as they are saved, in a form that stays as it is.

The structs are the file's format. A field that is added needs a default; anything else needs
another version of the file.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from ...policy.annotations.annotation_keys import RESOURCES_KEY, domain_of
from ...policy.engine.advice import Advice
from ...policy.model.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from ...policy.model.grant import Grant
from ...policy.model.hint import Hint, HintOrigin
from ...policy.pools.pool_tree import Pool
from ...topology.sets.cpuset import NO_CPUS, CpuSet, NodeSet


class PlacedContainer(NamedTuple):
    """A placed container, the cpus and memory nodes it has, and its grant, which is in a pool."""

    container: Container
    cpus: CpuSet | None
    mems: NodeSet | None
    grant: Grant
    pool: Pool
    unmet: tuple[str, ...] = ()
    """Required rules that do not hold there."""
    pod_size: Resources | None = None
    """The last size of its pod, where that was resized."""
    beside: tuple[CpuSet, ...] = ()
    """Cpus kept shared for it, or for its pen."""
    is_unpinned: bool = False
    """The container was told no cpus."""
    placed_for_milli: int | None = None
    """What it asked for as its cpus were chosen, where a resize since is missed."""


class SavedHint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One topology hint."""

    provider: str
    origin: HintOrigin
    path: str = ""
    device: str = ""
    cpus: str = ""
    numa_nodes: str = ""
    sockets: tuple[int, ...] = ()
    interrupts: tuple[int, ...] = ()


class SavedResources(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests and limits of a container; see `Resources`."""

    cpu_request_milli: int = 0
    cpu_limit_milli: int | None = None
    memory_request_bytes: int = 0
    may_request_memory: bool = False
    memory_limit_bytes: int | None = None
    hugepage_bytes: Mapping[int, int] = msgspec.field(default_factory=dict[int, int])


class SavedContainer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A placed container; sets of cpus in the kernel's list format.

    `cpus` and `mems` are what it runs on, pinned or not; `exclusive`, `grown` and `within` are
    of its grant, `beside` of its pen's where it is in one.
    """

    id: str
    name: str
    labels: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    tags: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    resources: SavedResources = SavedResources()
    state: ContainerState = ContainerState.CREATED
    created_at: int = 0
    cpus: str | None = None
    mems: str | None = None
    hints: tuple[SavedHint, ...] = ()
    pool: str
    exclusive: str = ""
    grown: tuple[str, ...] = ()
    is_reserved: bool = False
    within: str | None = None
    unmet: tuple[str, ...] = ()
    is_unmet_cut: bool = False
    is_penned: bool = False
    rest: str = ""
    pod_size: SavedResources | None = None
    first_labels: Mapping[str, str] | None = None
    """Labels that its pod had as it was first seen, where those saved with the pod are others."""
    beside: tuple[str, ...] = ()
    is_unpinned: bool = False
    """`cpus` are those of its pool, or what it ran on once: it was told none."""
    placed_for_milli: int | None = None
    """What it asked for as its cpus were chosen; 0: not known, None: what it asks for now."""

    def advice(
        self,
        labels: Mapping[str, str] | None = None,
        usable: CpuSet | None = None,
        reserved: CpuSet | None = None,
        *,
        pen: CpuSet = NO_CPUS,
        knows_beside: bool = False,
        is_final: bool = False,
        stuck: CpuSet = NO_CPUS,
    ) -> Advice:
        """Advice for its re-adoption, from the saved grant. Raises `IdListError`.

        `labels`: those that are saved with its pod. `usable`, `reserved`: the cpus that are saved
        as such. `pen`: the cpus of its pen. `knows_beside`: whether `beside` counts, under the
        present configuration. `is_final`: whether nobody was told anything after it was saved.
        `stuck`: the cpus on which it was stuck.
        """
        counts = (is_final or stuck) and not self.is_unpinned
        told = CpuSet.parse(self.cpus) if counts and self.cpus else None
        return Advice(
            pool=self.pool,
            exclusive=CpuSet.parse(self.exclusive),
            grown=tuple(map(CpuSet.parse, self.grown)),
            is_reserved=self.is_reserved,
            within=None if self.within is None else CpuSet.parse(self.within),
            unmet=self.unmet,
            is_unmet_cut=self.is_unmet_cut,
            is_penned=self.is_penned,
            rest=CpuSet.parse(self.rest),
            pen=pen,
            pod_size=None if self.pod_size is None else _resources(self.pod_size),
            labels=labels if self.first_labels is None else self.first_labels,
            usable=usable,
            reserved=reserved,
            cpu_request_milli=(
                self.resources.cpu_request_milli
                if self.placed_for_milli is None
                else self.placed_for_milli
            ),
            beside=tuple(map(CpuSet.parse, self.beside)) if knows_beside else None,
            told=told if is_final else None,
            stuck=stuck,
            meant=told if stuck else None,
        )

    def container(self, pod: Pod) -> Container:
        """The container of a pod as a runtime would list it. Raises `IdListError`."""
        if self.first_labels is not None:
            pod = replace(pod, first_labels=self.first_labels)
        return Container(
            id=ContainerId(self.id),
            name=self.name,
            pod=pod,
            labels=self.labels,
            tags=self.tags,
            resources=_resources(self.resources),
            state=self.state,
            created_at=self.created_at,
            cpus=None if self.cpus is None else CpuSet.parse(self.cpus),
            mems=None if self.mems is None else NodeSet.parse(self.mems),
            hints=tuple(map(_hint, self.hints)),
        )


class SavedPod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod and its placed containers, with those of its annotations that are for us."""

    id: str
    name: str
    namespace: str
    uid: str = ""
    qos: QosClass
    resources: SavedResources | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    is_cut: bool = False
    """Annotations, labels, tags and hints were too long to be saved."""
    containers: tuple[SavedContainer, ...] = ()

    def running(self) -> Iterator[Container]:
        """Containers of the pod as a runtime would list them. Raises `IdListError`."""
        pod = Pod(
            id=PodId(self.id),
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            labels=self.labels,
            annotations=self.annotations,
            qos=self.qos,
            resources=None if self.resources is None else _resources(self.resources),
        )
        return (one.container(pod) for one in self.containers)

    def pens(self) -> Mapping[str, CpuSet]:
        """The cpus of its containers' pens, by those in no slice. Raises `IdListError`.

        These are the same for all containers of one pen, and others for those in a group.
        """
        found: dict[str, CpuSet] = {}
        for one in self.containers:
            if one.is_penned:
                known = found.get(one.rest) or CpuSet.parse(one.rest)
                found[one.rest] = known | CpuSet.parse(one.exclusive)
        return found


def saved_pod(pod: Pod) -> SavedPod:
    """A pod to be saved, without its containers."""
    annotations = {key: one for key, one in pod.annotations.items() if _is_ours(key)}
    return replace(bare_pod(pod), is_cut=False, labels=pod.labels, annotations=annotations)


def bare_pod(pod: Pod, containers: tuple[SavedContainer, ...] = ()) -> SavedPod:
    """A pod whose texts are too long to be saved."""
    return SavedPod(
        id=pod.id,
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        qos=pod.qos,
        resources=None if pod.resources is None else _saved_resources(pod.resources),
        is_cut=True,
        containers=containers,
    )


def saved_newcomer(container: Container, *, with_texts: bool) -> SavedContainer:
    """A container to be saved that has nothing yet."""
    return SavedContainer(
        id=container.shown_id,
        name=container.name,
        labels=container.labels if with_texts else {},
        tags=container.tags if with_texts else {},
        resources=_saved_resources(container.resources),
        state=container.state,
        created_at=container.created_at,
        hints=tuple(map(_saved_hint, container.hints)) if with_texts else (),
        pool="",
    )


def saved_container(
    placed: PlacedContainer, *, with_texts: bool, labels: Mapping[str, str] | None = None
) -> SavedContainer:
    """A placed container to be saved; its labels, tags, hints and unmet rules only `with_texts`.

    `labels`: those that are saved with its pod; None: its own.
    """
    pod = placed.container.pod
    first, others = pod.labels_at_first_sight, pod.labels if labels is None else labels
    advice = Advice.of(placed.grant, placed.pool, placed.unmet, placed.pod_size)
    return replace(
        saved_newcomer(placed.container, with_texts=with_texts),
        cpus=None if placed.cpus is None else str(placed.cpus),
        mems=None if placed.mems is None else str(placed.mems),
        pool=advice.pool,
        exclusive=str(advice.exclusive),
        grown=tuple(map(str, advice.grown)),
        is_reserved=advice.is_reserved,
        within=None if advice.within is None else str(advice.within),
        unmet=advice.unmet if with_texts else (),
        is_unmet_cut=advice.is_unmet_cut or (not with_texts and bool(advice.unmet)),
        is_penned=advice.is_penned,
        rest=str(advice.rest),
        pod_size=None if advice.pod_size is None else _saved_resources(advice.pod_size),
        first_labels=first if with_texts and first != others else None,
        beside=tuple(map(str, placed.beside)),
        is_unpinned=placed.is_unpinned,
        placed_for_milli=placed.placed_for_milli,
    )


def saved_again(
    placed: PlacedContainer, before: PlacedContainer, saved: SavedContainer
) -> SavedContainer | None:
    """A container to be saved that was saved before with its texts, in a pod with the same labels.

    `before`: what `saved` was made of. None where it has another grant, or other rules are unmet.
    """
    if (
        placed.container is not before.container
        or placed.grant is not before.grant
        or placed.pool is not before.pool
        or placed.unmet != before.unmet
        or placed.pod_size != before.pod_size
        or placed.beside != before.beside
    ):
        return None
    return replace(
        saved,
        cpus=None if placed.cpus is None else str(placed.cpus),
        mems=None if placed.mems is None else str(placed.mems),
        is_unpinned=placed.is_unpinned,
        placed_for_milli=placed.placed_for_milli,
    )


def _resources(saved: SavedResources) -> Resources:
    # Earlier versions saved what annotations called a page of the size 0.
    pages = {size: one for size, one in saved.hugepage_bytes.items() if size}
    values: dict[str, Any] = asdict(saved) | {"hugepage_bytes": pages}
    return Resources(**values)


def _saved_resources(resources: Resources) -> SavedResources:
    """Requests and limits to be saved."""
    return SavedResources(**asdict(resources))


def _saved_hint(hint: Hint) -> SavedHint:
    """One topology hint to be saved."""
    return SavedHint(
        provider=hint.provider,
        origin=hint.origin,
        path=hint.path,
        device=hint.device,
        cpus=str(hint.cpus),
        numa_nodes=str(hint.numa_nodes),
        sockets=hint.sockets,
        interrupts=hint.interrupts,
    )


def _is_ours(key: str) -> bool:
    return key == RESOURCES_KEY or domain_of(key) is not None


def _hint(saved: SavedHint) -> Hint:
    values: dict[str, Any] = asdict(saved)
    values |= {"cpus": CpuSet.parse(saved.cpus), "numa_nodes": NodeSet.parse(saved.numa_nodes)}
    return Hint(**values)

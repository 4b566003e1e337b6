"""Every container the policy knows, what it asks for, and what was decided about it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from ...topology.sets.cpuset import NO_CPUS, CpuSet
from ..model.container import Container, ContainerId, ContainerState, Pod, PodId, Resources
from ..model.grant import Grant
from ..model.instances import instance_key
from ..model.last_place import Breach, LastPlace
from ..model.request import CpuType
from ..pens.pen_name import is_outside
from ..pens.pod_numbers import left_of_pod, resized_with, shows_pod
from ..placing.classifier import Classified
from ..placing.judging.restriction import is_about_others
from ..placing.wishes.own_cpus import shortfall, unbooked_claim
from ..rules.podaffinity.rule_set import RequiredTerm
from ..text.errors import Problem
from .decision import Decision

_LAST_PLACES_MAX: Final = 1024
_SIZES_MAX: Final = 4096
PACKED_TOGETHER: Final = 8
"""Decisions that are packed one after the other: what that needs is in the processor's caches from
the second one on, which takes a third of the time of the first."""


class Roster:
    """Containers by id, stopped ones included until they are removed.

    At most one of each name in a pod is the present instance; older ones are only known by id.
    """

    def __init__(self) -> None:
        self.containers: dict[ContainerId, Container] = {}
        self.classified: dict[ContainerId, Classified] = {}
        self.decisions: dict[ContainerId, Decision] = {}
        self.unread: Mapping[ContainerId, Exception] = {}
        """What went wrong with containers that could not be read; they are left as they run."""
        self.pod_sizes: dict[str, Resources] = {}
        """The last size of pods that were resized, by uid; the runtime tells that of creation."""
        self._instances: dict[tuple[str, str], ContainerId] = {}
        self._of_pod: dict[PodId, dict[ContainerId, None]] = {}
        self._last_places: dict[tuple[str, str], LastPlace] = {}
        self._unpacked: dict[ContainerId, None] = {}
        self._exited: dict[ContainerId, None] = {}

    def add(self, container: Container, classified: Classified) -> None:
        """A container is there, and is the present instance of its name."""
        self._note(container)
        self.classified[container.id] = classified
        self._instances[instance_key(container)] = container.id

    def leave_out(self, container: Container, decision: Decision) -> None:
        """A container is there, and nothing is known of what it asks for."""
        self._note(container)
        self.decisions[container.id] = decision

    def with_shortfall(self, decision: Decision) -> Decision:
        """The decision, noted with what its container lacks of the cpus it wants for itself."""
        request = self.classified[decision.container_id].request
        if not isinstance(decision.result, Grant):
            return decision
        container = self.containers[decision.container_id]
        problem = None
        if request.fallback is not None:
            problem = shortfall(container, request, decision.result)
        elif request.claimed is not None:
            problem = unbooked_claim(container, request, decision.result)
        if problem is None:
            return decision
        told = structs.replace(
            decision, degraded=problem.what, problems=(*decision.problems, problem)
        )
        self.decisions[decision.container_id] = told
        return told

    def unmet_of(self, container_id: ContainerId) -> Sequence[str]:
        """The rules that are told as unmet at a container; none where it is not known."""
        decision = self.decisions.get(container_id)
        return () if decision is None else decision.unmet

    def is_beside_others(self, container_id: ContainerId) -> bool:
        """Whether it is told of a container that anti-affinity does not hold where it is."""
        return any(map(is_about_others, self.unmet_of(container_id)))

    def tellers_of(
        self, container_ids: Iterable[ContainerId], other: ContainerId | None
    ) -> list[ContainerId]:
        """Containers, among these, of which what is told as unmet names another one."""
        if other is None or other not in self.containers:
            return []
        path, found = self.containers[other].path, list[ContainerId]()
        for container_id in container_ids:
            decision = self.decisions.get(container_id)
            for text in () if decision is None else decision.unmet:
                if path in text:
                    found.append(container_id)
                    break
        return found

    def pack_later(self, container_id: ContainerId) -> None:
        """Keep a decision's lineup packed, together with those of others. O(pools)."""
        self._unpacked[container_id] = None
        if len(self._unpacked) < PACKED_TOGETHER:
            return
        ids, self._unpacked = self._unpacked, {}
        for one in ids:
            decision = self.decisions.get(one)
            if decision is not None and decision.lineup is not None:
                packed = structs.replace(decision, lineup=decision.lineup.packed(), weights={})
                self.decisions[one] = packed

    def instance(self, container: Container) -> ContainerId | None:
        """The present instance of a container's pod and name."""
        return self._instances.get(instance_key(container))

    def earlier_instances(self, container: Container) -> Collection[ContainerId]:
        """Ids that a new container takes the place of: its own, if known, and the present one's."""
        found = dict.fromkeys((container.id, self.instance(container) or container.id))
        return [one for one in found if one in self.containers]

    def remember_place(self, grant: Grant, pen: Grant | None, breaches: frozenset[Breach]) -> None:
        """Remember the grant of an instance for the next one of its name in its pod, and its pen.

        `breaches`: rules that did not hold there between it and others.
        """
        container = self.containers[grant.container_id]
        key = instance_key(container)
        self._last_places.pop(key, None)
        self._last_places[key] = LastPlace(
            path=container.path,
            grant=grant,
            pen=pen,
            request=self.classified[container.id].request,
            resources=container.resources,
            breaches=breaches,
        )
        if len(self._last_places) > _LAST_PLACES_MAX:
            del self._last_places[next(iter(self._last_places))]

    def recall_places(self, older: "Roster") -> None:
        """Remember the places of instances before, as an older roster does."""
        self._last_places.update(older._last_places)

    def forget_places(self, pod_uid: str | None) -> None:
        """Forget the places of instances before, of one pod or all: who comes next chooses anew."""
        if pod_uid is None:
            self._last_places.clear()
            return
        for key in [key for key in self._last_places if key[0] == pod_uid]:
            del self._last_places[key]

    def remembered_place(self, container: Container) -> LastPlace | None:
        """The place of the instance before this one, where it was near the same, as noted then."""
        if not self._last_places:
            return None
        last = self._last_places.get(instance_key(container))
        if last is None or last.request.hints != self.classified[container.id].request.hints:
            return None
        return last

    def last_place(self, container: Container) -> LastPlace | None:
        """The remembered place of a container, with what is known of it by now. O(such places)."""
        last = self.remembered_place(container)
        if last is None:
            return None
        breaches = last.breaches | self._breaches_beside(container)
        is_of_same = last.resources == container.resources
        could_have_more = self.classified[container.id].request.fallback is not None
        could_have_more |= last.grant.within is not None
        is_awaited = could_have_more and bool(self.ended())
        return structs.replace(
            last, is_of_same=is_of_same, breaches=breaches, is_awaited=is_awaited
        )

    def ended(self) -> Sequence[Container]:
        """The containers that have ended and are not removed: instances of them may be back."""
        if not self._exited:
            return ()
        known = map(self.containers.__getitem__, self._exited)
        return [one for one in known if self._instances.get(instance_key(one)) == one.id]

    def affinity_of_ended(self) -> Sequence[tuple[Container, RequiredTerm]]:
        """The rules of those containers that want them with others."""
        known = self.classified
        return [
            (one, rule)
            for one in self.ended()
            if one.id in known
            for rule in known[one.id].placement.required
            if not rule.is_anti
        ]

    def _breaches_beside(self, container: Container) -> frozenset[Breach]:
        """The rules that did not hold between a container and others that ended before it did."""
        path = container.path
        return frozenset(
            Breach(not breach.is_own, breach.text, other.path)
            for other in self._last_places.values()
            for breach in other.breaches
            if breach.other == path
        )

    def place_in(self, pen_id: ContainerId, container: Container) -> LastPlace | None:
        """The last place of a container that was in a pen and asks for the same; else None.

        With what the pen had of its own as others left it, too: of several that ended together each
        found it smaller, and they are back in whatever order. O(remembered places).
        """
        last = self.last_place(container)
        if last is None or last.grant.pen != pen_id or not last.is_of_same:
            return None
        if last.pen is None or not last.pen.exclusive:
            return last
        # One that had not all that this one found was of another time.
        found = {
            other.pen.exclusive
            for other in self._last_places.values()
            if other.grant.pen == pen_id
            and other.pen is not None
            and last.pen.exclusive <= other.pen.exclusive
        }
        return structs.replace(last, pen_cpus=tuple(sorted(found, key=lambda s: (len(s), s.mask))))

    def awaited_slices(self, container: Container) -> CpuSet:
        """The cpus of its pod's pen that others had for themselves, who have ended since."""
        found = NO_CPUS
        for other in map(self.containers.__getitem__, self.of_pod(container.pod.id)):
            last = self._last_places.get(instance_key(other))
            is_there = self._instances.get(instance_key(other)) != other.id
            if is_there or other.state is not ContainerState.EXITED or last is None:
                continue
            found |= last.grant.exclusive if last.grant.pen is not None else NO_CPUS
        return found

    def counted_once(self, container: Container, classified: Classified) -> Classified:
        """A container's demand without what others of its pod have of the pod's on reserved cpus.

        A container without numbers of its own carries its pod's. Elsewhere a pen counts them once.
        """
        pod, request = container.pod, classified.request
        size = self.size_of(pod) if request.cpu_type is CpuType.RESERVED else None
        if size is None:
            return classified
        known = self.containers.get(container.id)
        other = None
        if known is not None and shows_pod(size, known):
            # Not every runtime tells that a pod was resized.
            other = resized_with(size, known, container)
        if other is not None:
            self.note_size(pod, size := other)
        others = [
            (self.containers[one], self.classified[one].request)
            for one in self.of_pod(pod.id)
            if one in self.classified
            and self.containers[one].name != container.name
            and self.containers[one].state is not ContainerState.EXITED
        ]
        request = left_of_pod(request, container, size, others)
        return structs.replace(classified, request=request)

    def size_of(self, pod: Pod) -> Resources | None:
        """The size of a whole pod, after resizes, as far as it is known."""
        return self.pod_sizes.get(pod.uid or pod.id, pod.resources)

    def note_size(self, pod: Pod, size: Resources) -> None:
        """Note the size of a pod, which was resized; of very many the last ones."""
        self.pod_sizes[pod.uid or pod.id] = size
        if len(self.pod_sizes) > _SIZES_MAX:
            del self.pod_sizes[next(iter(self.pod_sizes))]

    def note_problem(self, container_id: ContainerId, problem: Problem) -> None:
        """Note what came up about a container that is there, and its decision with it."""
        classified = self.classified[container_id]
        problems = (*classified.problems, problem)
        self.classified[container_id] = structs.replace(classified, problems=problems)
        if (decision := self.decisions.get(container_id)) is not None:
            problems = (*decision.problems, problem)
            self.decisions[container_id] = structs.replace(decision, problems=problems)

    def note_grant(self, grant: Grant, pool: str) -> None:
        """Note what a container holds that was decided about when its pod had no pen, or less."""
        decision = self.decisions.get(grant.container_id)
        if decision is not None and isinstance(decision.result, Grant):
            self.decisions[grant.container_id] = structs.replace(
                decision, result=grant, pool=pool, degraded=""
            )

    def placed_beside(
        self, container: Container, grants: Mapping[ContainerId, Grant]
    ) -> Sequence[Container]:
        """The other containers of a pod that hold something, outside any pen.

        Who asks for the reserved cpus is none of them, even where it found these full.
        """
        return [
            self.containers[one]
            for one in self.of_pod(container.pod.id)
            if one != container.id
            and one in grants
            and grants[one].cpu_type is CpuType.NORMAL
            and self.classified[one].request.cpu_type is not CpuType.RESERVED
            and not is_outside(self.containers[one])
        ]

    def of_pod(self, pod_id: PodId) -> tuple[ContainerId, ...]:
        """The containers known of a pod, oldest first."""
        return tuple(self._of_pod.get(pod_id, ()))

    def reach(self, container_id: ContainerId, state: ContainerState) -> None:
        """A container is in another state of its life. Unknown ids are ignored."""
        container = self.containers.get(container_id)
        if container is not None and container.state is not state:
            self.containers[container_id] = structs.replace(container, state=state)
            self._note_state(self.containers[container_id])

    def identify(self, container_id: ContainerId, runtime_id: str) -> None:
        """The runtime has given a container its id. Unknown ids are ignored."""
        container = self.containers.get(container_id)
        if container is not None:
            self.containers[container_id] = structs.replace(container, runtime_id=runtime_id)

    def remove(self, container_id: ContainerId) -> None:
        """Forget a container. Unknown ids change nothing."""
        container = self.containers.pop(container_id, None)
        if container is None:
            return
        self._exited.pop(container_id, None)
        siblings = self._of_pod[container.pod.id]
        del siblings[container_id]
        if not siblings:
            del self._of_pod[container.pod.id]
        key = instance_key(container)
        if self._instances.get(key) == container_id:
            del self._instances[key]
        self.classified.pop(container_id, None)
        self.decisions.pop(container_id, None)

    def _note(self, container: Container) -> None:
        before = self.containers.get(container.id)
        if before is not None and before.pod.id != container.pod.id:
            self.remove(container.id)
        self.containers[container.id] = container
        if self._exited or container.state is ContainerState.EXITED:
            self._note_state(container)
        self._of_pod.setdefault(container.pod.id, {})[container.id] = None

    def _note_state(self, container: Container) -> None:
        if container.state is ContainerState.EXITED:
            self._exited[container.id] = None
        else:
            self._exited.pop(container.id, None)

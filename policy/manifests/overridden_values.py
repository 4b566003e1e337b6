"""Values that a pod gives all of its containers, and that none of these has."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from ..annotations.annotations import read_annotations
from ..annotations.preferences import parse_preferences
from ..configuration.config import OnUnsatisfiable
from ..model.container import Container, ContainerId, Pod
from ..rules.podaffinity.own_rules import own_rules
from ..text.errors import Problem


def overridden_problems(pod: Pod, names: Collection[str]) -> Iterator[Problem]:
    """Problems of values for the whole pod where each of these containers has one of its own.

    They are wrong all the same: a container that is added has them, be it by a webhook when the pod
    is created, of which the manifest knows nothing. So are those of a pod without containers.
    """
    annotations = read_annotations(pod.annotations)
    settings = annotations.settings
    idle = {
        setting.key
        for (key, name), setting in settings.items()
        if not name and all((key, one) in settings for one in names)
    }
    if not idle:
        return
    added = Container(id=ContainerId(""), name="", pod=pod)
    rules = own_rules(annotations, added, OnUnsatisfiable.DEGRADE)
    heeded = " (each container has a value of its own, but one that is added has not)"
    for problem in (*parse_preferences(added).problems, *rules.problems):
        key = problem.where.partition(" of ")[0]
        if key in idle:
            what = problem.what + (heeded if names else "")
            yield replace(
                problem, where=f"{key} of {pod.namespace}/{pod.name}", what=what, container=""
            )

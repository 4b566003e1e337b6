"""How many labels of a pod are looked at, whatever strangers write."""

from pinfold.nri.api import nri_pb2
from pinfold.nri.plugin.messages import container_linux_value, container_value, pod_value
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.policy.configuration.config import Config
from pinfold.policy.model.container import ContainerId
from pinfold.policy.placing.classifier import Classifier
from pinfold.policy.rules.affinity_index import AffinityIndex
from pinfold.policy.rules.container_facts import KUBELET_LABELS
from pinfold.policy.rules.label_budget import (
    LABEL_CHARACTERS_MAX,
    LABELS_MAX,
    admit_labels,
)

MANY = {f"l{number:05}": "" for number in range(40_000)}


def test_ordinary_labels_all_count_and_nothing_is_said() -> None:
    longest = {f"{'d' * 253}/{'n' * 63}": "v" * 63}
    labels = {f"app{number}": "x" for number in range(LABELS_MAX - 1)} | longest
    admitted = admit_labels(labels, "default/web")
    assert admitted.labels == labels
    assert admitted.problems == ()


def test_of_too_many_labels_the_kubelet_s_and_the_first_by_key_count() -> None:
    kubelet = dict.fromkeys(KUBELET_LABELS, "x")
    admitted = admit_labels({"z": "1", **MANY, **kubelet, "a": "2"}, "default/web")
    assert len(admitted.labels) == LABELS_MAX
    assert {*kubelet, "a", "l00000"} <= admitted.labels.keys()
    assert "z" not in admitted.labels
    (problem,) = admitted.problems
    assert problem.is_advice
    assert str(problem).startswith("labels of default/web: 40006 labels, of which 128 count")
    assert admit_labels(admitted.labels, "default/web").labels == admitted.labels


def test_a_label_longer_than_kubernetes_allows_does_not_count() -> None:
    admitted = admit_labels({"app": "web", "long": "x" * LABEL_CHARACTERS_MAX}, "default/web")
    assert admitted.labels == {"app": "web"}
    assert len(admitted.problems) == 1


def test_what_is_kept_of_a_container_is_bounded_and_its_author_is_told() -> None:
    pod = pod_value(nri_pb2.PodSandbox(id="p", name="web", labels=write_entries(MANY)))
    message = nri_pb2.Container(id="c", name="c", labels=MANY)
    container, _ = container_value(message, pod, container_linux_value(message), None)
    assert len(container.pod.labels) == len(container.labels) == LABELS_MAX
    problems = Classifier(Config()).classify(container).problems
    assert ["labels" in problem.what for problem in problems] == [True]
    index = AffinityIndex()
    index.add(container)
    index.remove(ContainerId("c"))
    assert index.is_empty


def test_pages_of_more_sizes_than_there_are_do_not_count() -> None:
    message = nri_pb2.Container(id="c", name="c")
    for number in range(20_000):
        message.linux.resources.hugepage_limits.add(page_size=f"{number + 1}KB", limit=1)
    assert len(container_linux_value(message).hugepage_bytes) == 64

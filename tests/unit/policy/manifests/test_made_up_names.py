import pytest

from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.manifests.manifest import pods_of
from pinfold.policy.text.yaml_fields import read_fields

SERVICE = """\
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello}
spec:
  template:
    metadata: {annotations: {smt.pinfold.dev/container.user-container: pack}}
    spec: {containers: [{image: a}]}
"""


def names(text: str) -> list[str]:
    (pod,) = pods_of(read_fields(text, "x.yaml")).pods
    return [one.name for one in (*pod.init_containers, *pod.containers)]


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param("containers: [{image: a}]", ["user-container"], id="one has no number"),
        pytest.param(
            "containers: [{image: a}, {name: b}, {image: c}]",
            ["user-container-0", "b", "user-container-1"],
            id="of several each without a name has a number",
        ),
        pytest.param(
            "containers: [{image: a}, {name: user-container-0}]",
            ["user-container-1", "user-container-0"],
            id="a number that is taken is passed over",
        ),
        pytest.param(
            "initContainers: [{image: a}], containers: [{name: b}]",
            ["init-container", "b"],
            id="one that comes first is called otherwise",
        ),
    ],
)
def test_containers_of_knative_are_called_as_knative_calls_them(
    containers: str, expected: list[str]
) -> None:
    assert names(SERVICE.replace("containers: [{image: a}]", containers)) == expected


def test_annotations_for_a_container_that_has_no_name_are_no_fault() -> None:
    assert not lint_manifests(SERVICE)


def test_names_of_another_operators_containers_are_asked_for() -> None:
    found = pods_of(read_fields(SERVICE.replace("knative", "example"), "x.yaml"))
    assert not found.pods
    assert found.remarks[0].startswith("x.yaml:7:25: spec.containers[0].name: is missing")

"""Values for a whole pod that each of its containers overrides are checked like all others."""

import pytest

from pinfold.policy.manifests.annotation_lint import lint_manifests
from tests.unit.policy.manifests.finding_texts import finding_text

ADDED = "(each container has a value of its own, but one that is added has not)"
WRONG = "smt.pinfold.dev/pod: pakc"
OF_A = "smt.pinfold.dev/container.a: pack"
OF_B = "smt.pinfold.dev/container.b: spread"
MEANT = "did you mean 'pack'?"


def found(*annotations: str, containers: str = "{name: a}, {name: b}") -> list[str]:
    lines = "".join(f"    {one}\n" for one in annotations)
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n"
        f"{lines}spec: {{containers: [{containers}]}}\n"
    )
    return [finding_text(one, "x.yaml").splitlines()[0] for one in lint_manifests(text)]


@pytest.mark.parametrize(
    ("annotations", "findings"),
    [
        pytest.param(
            (WRONG, OF_A, OF_B),
            [
                "x.yaml:6:5: smt.pinfold.dev/pod of default/p: unknown use of threads 'pakc'"
                f" {ADDED} — {MEANT}"
            ],
            id="a word that nobody knows",
        ),
        pytest.param(
            (WRONG, OF_A),
            [
                "x.yaml:6:5: smt.pinfold.dev/pod of default/p/b: unknown use of threads 'pakc' —"
                f" {MEANT}"
            ],
            id="told once, of a container that has it",
        ),
        pytest.param(
            (
                "affinity.pinfold.dev/pod: 'podAfinity: {}'",
                "affinity.pinfold.dev/container.a: 'podAffinity: {}'",
                "affinity.pinfold.dev/container.b: 'podAffinity: {}'",
            ),
            [
                "x.yaml:6:32: affinity.pinfold.dev/pod of default/p: unknown field 'podAfinity' in"
                f" an affinity {ADDED} — did you mean 'podAffinity'?"
            ],
            id="a rule, at its place inside the text",
        ),
        pytest.param(
            ("smt.pinfold.dev/pod: spread", OF_A, OF_B), [], id="a right value that nobody has"
        ),
    ],
)
def test_a_value_that_every_container_overrides_is_checked(
    annotations: tuple[str, ...], findings: list[str]
) -> None:
    assert found(*annotations) == findings


def test_a_value_of_a_pod_without_containers_is_checked() -> None:
    assert (
        f"x.yaml:6:5: smt.pinfold.dev/pod of default/p: unknown use of threads 'pakc' — {MEANT}"
        in (found(WRONG, containers=""))
    )

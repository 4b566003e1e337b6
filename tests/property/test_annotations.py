from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.annotations.annotation_keys import DOMAINS, KEYS
from pinfold.policy.annotations.annotations import Scope, effective
from pinfold.policy.annotations.preferences import parse_preferences
from pinfold.policy.manifests.annotation_lint import lint_manifests
from pinfold.policy.model.container import Container, ContainerId, Pod, PodId
from tests.unit.policy.manifests.finding_texts import finding_text

NAMES = st.sampled_from([*sorted({key.name for key in KEYS}), "affinty", "", "a.b"])
ENDS = st.sampled_from(["", "/", "/pod", "/container.c0", "/container.", "/pods", "/container.c1"])
PARTS = st.tuples(NAMES, st.sampled_from((*DOMAINS, "resource-polcy.nri.io")), ENDS)
ANNOTATION_KEYS = (
    PARTS.map(lambda parts: f"{parts[0]}.{parts[1]}{parts[2]}")
    | PARTS.map(lambda parts: f"{parts[1]}/{parts[0]}")
    | st.text("resource-plicy.nfod/", max_size=40)
)
ANNOTATION_VALUES = st.text(max_size=30) | st.sampled_from(
    [
        "true", "false", "dram", "duration: 10s", "duration: [", "c0: true", "c0:\n  duration: 5s",
        "claim: [a]", "claim: ['[']\nmode: x", "type: glob\npaths: ['[']", "paths: x", "[a, b]",
        "c0: [c1]", "c0: {a: b}", "mounts,x", "high", "numa", "\ud800", "\x00", "*a", "&a b",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(ANNOTATION_KEYS, ANNOTATION_VALUES, max_size=5))
def test_any_annotations_give_preferences_and_problems(annotations: dict[str, str]) -> None:
    pod = Pod(id=PodId("p"), name="web", annotations=annotations)
    container = Container(id=ContainerId("c"), name="c0", pod=pod)
    preferences = parse_preferences(container)
    assert preferences == parse_preferences(container)
    for problem in preferences.problems:
        assert problem.where.partition(" of ")[0] in annotations
        if problem.is_fatal:
            assert "irq-affinity" in problem.where or "cold-start" in problem.where


SCOPES = {"/container.c0": Scope.CONTAINER, "/pod": Scope.POD, "": Scope.UNSCOPED}


@given(st.dictionaries(st.sampled_from(list(SCOPES)), st.sampled_from("abc")))
def test_the_scope_that_counts_is_the_largest_given(values: dict[str, str]) -> None:
    annotations = {f"rdtclass.resource-policy.nri.io{end}": text for end, text in values.items()}
    setting = effective(annotations, "rdtclass", "c0")
    if setting is None:
        assert not values
        return
    best = max(values, key=lambda end: SCOPES[end])
    assert (setting.value, setting.scope) == (values[best], SCOPES[best])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "kind: Pod\n", "kind: List\n", "items:\n", "- ", "metadata:\n", "  annotations:\n",
                "    smt.pinfold.dev/pod: ", "    pinfold.dev/affinity: |\n", "      a: [b", "]",
                "x", "spec:\n", "  containers:\n", "  - name: a\n", "---\n", "\n", ": ", "&a ",
                "*a", "\t",
            ]
        ),
        max_size=14,
    ).map("".join)
    | st.text(max_size=60)
)  # fmt: skip
def test_any_text_can_be_linted(text: str) -> None:
    for finding in lint_manifests(text):
        assert finding.problem.what
        assert 0 <= finding.line <= len(text) + 2
        assert finding_text(finding, "file").startswith("file")

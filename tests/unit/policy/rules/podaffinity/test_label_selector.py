"""Whether one label selector matches all that another one matches, against all labels there are."""

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

from pinfold.policy.model.selector_operator import LabelOperator
from pinfold.policy.rules.podaffinity.label_selector import LabelRequirement, LabelSelector

ALL_LABELS: Sequence[Mapping[str, str]] = ({}, {"app": "a"}, {"app": "b"}, {"app": "another"})
"""Requirements name a and b; another value is like any that they do not name."""
REQUIREMENTS = [
    *(
        LabelRequirement("app", operator, values)
        for operator in (LabelOperator.IN, LabelOperator.NOT_IN)
        for values in (("a",), ("b",), ("a", "b"))
    ),
    LabelRequirement("app", LabelOperator.EXISTS),
    LabelRequirement("app", LabelOperator.DOES_NOT_EXIST),
]


def test_a_selector_includes_another_if_it_matches_whatever_that_one_matches() -> None:
    for wide in REQUIREMENTS:
        for some in combinations_with_replacement(REQUIREMENTS, 2):
            narrow = LabelSelector(some)
            is_wider = all(wide.holds(one) for one in ALL_LABELS if narrow.matches(one))
            # That nobody can fulfil two requirements of which one wants the label and the other
            # one does not is no reason to call anything wider.
            if any(map(narrow.matches, ALL_LABELS)):
                assert LabelSelector((wide,)).includes(narrow) is is_wider, f"{wide}: {narrow}"


def test_requirements_of_other_labels_make_a_selector_narrower() -> None:
    web, both = LabelSelector.equals(app="web"), LabelSelector.equals(app="web", tier="gold")
    assert web.includes(both)
    assert not both.includes(web)
    assert LabelSelector().includes(web)
    assert not web.includes(LabelSelector())

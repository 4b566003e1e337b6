"""What looks at many residents cost: nothing is asked once more for each of them."""

from collections.abc import Iterable

import pytest

from pinfold.policy.books.books import Books
from pinfold.policy.model.container import ContainerId
from tests.unit.policy.engine.ruled_pods import (
    LASTING,
    container_of,
    engine_of,
    term,
)


def test_a_look_at_many_asks_once_where_those_are_whom_rules_keep_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many, asked = 60, list[ContainerId]()
    engine = engine_of("socket:1 numa:1 core:8 thread:2 mem:32G")
    rules = {"podAntiAffinity": {LASTING: [term("core", "web"), term("numa", "web")]}}
    for number in range(many):
        engine.create(container_of(f"web{number}", 0.01, rules, app="web"))
    reaches = Books.reaches

    def counted(books: Books, container_ids: Iterable[ContainerId]) -> list[int]:
        ids = [*container_ids]
        asked.extend(ids)
        return reaches(books, ids)

    monkeypatch.setattr(Books, "reaches", counted)
    assert any(engine.look_at_rules().values())
    assert len(asked) < 5 * many

"""Transcripts of a node's answers find their places in the operator's guide."""

from pathlib import Path

import pytest

from tests.e2e.guest.questions import QUESTIONS
from tests.e2e.transcripts import refreshed, transcripts

GUIDE = Path(__file__).parents[2] / "docs" / "operating.md"
ANSWERS = {
    "questions": [
        {
            "words": one.words,
            "answers": [
                {"command": command, "output": r"\1 said" + "\n"} for command in one.commands
            ],
        }
        for one in QUESTIONS
    ]
}


def test_the_guide_takes_new_answers_to_all_questions_and_is_else_the_same() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    before, _, rest = guide.partition("#### Where is it?")
    _, _, after = rest.partition("#### Is it healthy?")
    _, _, after = after.partition("\n```\n")
    assert refreshed(guide, ANSWERS) == f"{before}{transcripts(ANSWERS)}{after}"


def test_a_question_that_the_guide_does_not_have_is_told_of() -> None:
    with pytest.raises(LookupError, match="'Where is it\\?' has 0 transcripts"):
        refreshed("#### Where is it?\n\nNowhere.\n", ANSWERS)

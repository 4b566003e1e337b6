"""Transcripts of questions that a node was asked, as the operator's guide shows them."""

import re
from collections.abc import Mapping
from typing import Any


def transcripts(answers: Mapping[str, Any]) -> str:
    """The chapter of the guide: each question with what was typed and printed."""
    return "\n".join(f"#### {one['words']}\n\n{_block(one)}\n" for one in answers["questions"])


def refreshed(guide: str, answers: Mapping[str, Any]) -> str:
    """A guide with these transcripts in place of those of the same questions.

    Raises `LookupError` for a question that has none there.
    """
    for one in answers["questions"]:
        place = re.compile(
            rf"(?<=^#### {re.escape(one['words'])}\n\n)```text\n.*?^```$", re.M | re.S
        )
        # A backslash in it would be a group of the pattern.
        guide, count = place.subn(_block(one).replace("\\", r"\\"), guide)
        if count != 1:
            raise LookupError(f"{one['words']!r} has {count} transcripts in the guide")
    return guide


def _block(question: Mapping[str, Any]) -> str:
    lines = ["```text"]
    for one in question["answers"]:
        lines += [f"# {one['command']}", *one["output"].rstrip("\n").splitlines()]
    return "\n".join([*lines, "```"])

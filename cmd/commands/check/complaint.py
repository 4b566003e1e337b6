"""Complaints about files: where, what and how to fix it, for people and for tools."""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from ....policy.text.errors import placed_text, position_text
from ..json_text import json_text

_PLACED: Final = re.compile(
    r"(?P<source>.*?):(?P<line>\d+):((?P<column>\d+):)? (?P<rest>.*)", re.DOTALL
)
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


class Severity(enum.Enum):
    """The severity of a complaint."""

    UNREADABLE = "unreadable"
    ERROR = "error"
    ADVICE = "advice"


class Subject(enum.Enum):
    """The kind of text that a complaint is about, with its meaning."""

    ANNOTATION = "annotation"
    CONFIGURATION = "configuration"
    SCENARIO = "scenario"
    FILE = "file"

    @property
    def meaning(self) -> str:
        """The subject in a few words."""
        return _MEANINGS[self]


_GITHUB_LEVELS: Final = {
    Severity.UNREADABLE: "error",
    Severity.ERROR: "error",
    Severity.ADVICE: "notice",
}
_SARIF_LEVELS: Final = {
    Severity.UNREADABLE: "error",
    Severity.ERROR: "error",
    Severity.ADVICE: "note",
}
_MEANINGS: Final = {
    Subject.ANNOTATION: "Annotations of a pod, and what its containers ask for",
    Subject.CONFIGURATION: "A configuration of the daemon",
    Subject.SCENARIO: "A scenario with expectations",
    Subject.FILE: "A file that cannot be read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One fault, or advice, about a place in a file; line and column count from 1, 0 if unknown."""

    source: str
    subject: Subject
    severity: Severity
    message: str
    """What is wrong and how to fix it."""
    line: int = 0
    column: int = 0
    excerpt: str = ""
    """The line in the file with the place underlined, for people."""

    @property
    def placed_text(self) -> str:
        """The complaint as people and editors read it, the place first."""
        place = position_text(self.source, self.line, self.column)
        is_advice = self.severity is Severity.ADVICE
        return placed_text(place, self.message, is_advice=is_advice, excerpt=self.excerpt)

    @classmethod
    def of_line(cls, text: str, source: str, subject: Subject, severity: Severity) -> Self:
        """The complaint of a message that begins with its place, if it has one."""
        placed = _PLACED.fullmatch(text)
        is_here = placed is not None and placed["source"] in (source, "")
        return cls(
            source=source,
            subject=subject,
            severity=severity,
            message=placed["rest"] if is_here and placed else text.removeprefix(f"{source}: "),
            line=int(placed["line"]) if is_here and placed else 0,
            column=int(placed["column"] or 0) if is_here and placed else 0,
        )


def complaints_json(complaints: Sequence[Complaint]) -> str:
    """Complaints as one JSON document in the order of the files."""
    document = {
        "complaints": [
            {
                "file": one.source,
                "line": one.line or None,
                "column": one.column or None,
                "level": one.severity.value,
                "subject": one.subject.value,
                "message": one.message,
            }
            for one in complaints
        ],
        "errors": sum(one.severity is not Severity.ADVICE for one in complaints),
        "advice": sum(one.severity is Severity.ADVICE for one in complaints),
    }
    return json_text(document)


def github_text(complaints: Sequence[Complaint]) -> str:
    """Complaints as commands of a workflow, which GitHub shows beside the lines.

    Source: GitHub's documentation, "Workflow commands for GitHub Actions".
    """
    return "\n".join(map(_github_line, complaints))


def sarif_text(complaints: Sequence[Complaint], version: str) -> str:
    """Complaints as a SARIF log of one run; `version`: the program's.

    Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
    """
    driver = {
        "name": "pinfold lint",
        "version": version,
        "rules": [
            {"id": subject.value, "shortDescription": {"text": subject.meaning}}
            for subject in Subject
        ],
    }
    log = {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(one) for one in complaints],
            }
        ],
    }
    return json_text(log)


def _github_line(one: Complaint) -> str:
    place = {"file": one.source, "line": one.line or None, "col": one.column or None}
    fields = ",".join(f"{key}={_github_property(text)}" for key, text in place.items() if text)
    return f"::{_GITHUB_LEVELS[one.severity]} {fields}::{_github_data(one.message)}"


def _github_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(value: str | int) -> str:
    return _github_data(str(value)).replace(":", "%3A").replace(",", "%2C")


def _sarif_result(one: Complaint) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": one.source}}
    if one.line:
        column = {"startColumn": one.column} if one.column else {}
        location["region"] = {"startLine": one.line, **column}
    return {
        "ruleId": one.subject.value,
        "level": _SARIF_LEVELS[one.severity],
        "message": {"text": one.message},
        "locations": [{"physicalLocation": location}],
    }

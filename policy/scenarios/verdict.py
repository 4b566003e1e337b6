"""Verdicts on the steps of a scenario: expectations judged, parts skipped, laws broken."""

import re
from collections.abc import Callable

from ..text.errors import Problem
from .expressions.evaluator import EvaluatorError
from .expressions.values import Value, brief
from .result import Expectation, RefusedContainer, Skipped

Evaluate = Callable[[str], Value]
"""The value of an expression at this moment; raises `EvaluatorError`."""


class Verdicts:
    """Verdicts found so far. `step` is the number of the step that is under way."""

    def __init__(self) -> None:
        """Begin without any verdict."""
        self.step = 0
        self.expectations: list[Expectation] = []
        self.skipped: list[Skipped] = []
        self.refusals: list[RefusedContainer] = []
        self._problems: dict[str, str] = {}
        self._remarks: dict[str, Problem] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems, each sentence once, with the step it was first seen at."""
        return tuple(self._problems.values())

    @property
    def remarks(self) -> tuple[Problem, ...]:
        """Remarks on the pods' annotations, wrong or needless ones, each sentence once."""
        return tuple(self._remarks.values())

    def remark(self, problem: Problem) -> None:
        """A pod's author wrote something wrong; the scenario goes on and fails not for it."""
        self._remarks.setdefault(str(problem), problem)

    def note(self, sentence: str) -> None:
        """A problem came up."""
        self._problems.setdefault(sentence, f"step {self.step}: {sentence}")

    def refuse(self, path: str, reason: str) -> None:
        """A container was refused, and the step does not say that it should be."""
        self.refusals.append(RefusedContainer(step=self.step, path=path, reason=reason))

    def skip(self, reason: str) -> None:
        """The step, or a part of it, is passed over."""
        self.skipped.append(Skipped(self.step, reason))

    def expect(
        self,
        expression: str,
        evaluate: Evaluate,
        not_simulated: str = "",
        values_in: Callable[[str], tuple[str, ...]] = lambda _: (),
    ) -> None:
        """The expression should be true; other values are as wrong as false.

        `not_simulated`: why it is passed over, empty where it can be judged. `values_in`: the
        values inside one that is false.
        """
        if not_simulated:
            self.skip(f"{expression}: {not_simulated}")
            return
        try:
            value = evaluate(expression)
        except EvaluatorError as error:
            self._judge(expression, holds=False, error=str(error))
            return
        wrong = None if isinstance(value, bool) else f"is {brief(value)}, neither true nor false"
        values = values_in(expression) if value is False else ()
        self._judge(expression, holds=value is True, error=wrong, values=values)

    def remembered(self, name: str, expression: str, evaluate: Evaluate) -> Value:
        """The value to remember; an expectation that does not hold where there is none."""
        try:
            return evaluate(expression)
        except EvaluatorError as error:
            self._judge(f"{name} = {expression}", holds=False, error=str(error))
            return None

    def expect_error(self, name: str, expected: str, error: str) -> None:
        """An error that was waited for is an expectation; any other is a problem.

        `expected`: a regular expression, empty where nothing should go wrong; `error` likewise.
        """
        if not expected:
            if error:
                self.note(f"{name.removeprefix('expect_')}: {error}")
            return
        try:
            holds = bool(error) and re.search(expected, error) is not None
            why = None if holds else (error or "there was no error")
        except re.error as caught:
            holds, why = False, f"not a regular expression: {caught}"
        self._judge(f"{name}: {expected}", holds=holds, error=why)

    def _judge(
        self, expression: str, *, holds: bool, error: str | None, values: tuple[str, ...] = ()
    ) -> None:
        judged = Expectation(
            step=self.step, expression=expression, holds=holds, error=error, values=values
        )
        self.expectations.append(judged)

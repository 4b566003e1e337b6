"""Reasons of decisions in words: the criterion that decided, the runner-up, and the request."""

from ...topology.drawing.machine_tree import bytes_text
from ..model.container import Container
from ..model.criterion_words import CRITERIA, words_of
from ..model.grant import Refusal
from ..placing.choice import choose
from .decision import Decision


def runner_up(decision: Decision) -> str:
    """The name of the second best pool; empty where there was no choice. O(pools x criteria)."""
    lineup = decision.lineup
    if lineup is None or decision.decided_by not in CRITERIA:
        return ""
    rivals, since = [*lineup.rivals], decision.decided_by
    if not rivals and len(feasible := lineup.feasible()) > 1:
        # The pool that won is not always that of the decision by now: a pen may have lifted it.
        _, since, rivals = choose(lineup.contest, feasible)
    if len(rivals) > 1:
        return lineup.names[choose(lineup.contest, rivals, since)[0]]
    return lineup.names[rivals[0]] if rivals else ""


def reason_of(decision: Decision) -> str:
    """The reason of a decision; for a choice also the runner-up."""
    if isinstance(decision.result, Refusal):
        return f"refused: {decision.result.reason}"
    text, second = words_of(decision.decided_by), runner_up(decision)
    return f"{text} (next best: {second})" if second else text


def request_text(container: Container, decision: Decision) -> str:
    """A request in a few words: as it was held against the pools, else as the container has it."""
    if decision.lineup is not None:
        return decision.lineup.contest.request.describe()
    resources = container.resources
    parts = [f"{resources.cpu_request_milli}m of CPU"]
    if memory := resources.memory_request_bytes or resources.memory_limit_bytes:
        parts.append(f"{bytes_text(memory)} of memory")
    return ", ".join(parts)

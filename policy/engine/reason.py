"""Reasons of decisions in words: the criterion that decided, the runner-up, and the request."""

from ...topology.drawing.machine_tree import bytes_text
from ..model.container import Container
from ..model.criterion_words import CRITERIA, words_of
from ..model.grant import Refusal
from ..placing.rank import choose
from .decision import Decision


def runner_up(decision: Decision) -> str:
    """The name of the second best pool; empty where there was no choice. O(pools x criteria)."""
    lineup = decision.lineup
    if lineup is None or decision.decided_by not in CRITERIA:
        return ""
    # A pod with cpus of its own may be elsewhere by now: the pool that won is the second then.
    names, finalists = lineup.names, lineup.finalists
    others = [one for one in finalists or lineup.feasible() if names[one] != decision.pool]
    if len(others) > 1:
        since = decision.decided_by if finalists else ""
        return names[choose(lineup.contest, others, since)[0]]
    return names[others[0]] if others else ""


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

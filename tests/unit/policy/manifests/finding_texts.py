"""Findings of manifests as `pinfold lint` tells them."""

from pinfold.policy.manifests.finding import Finding
from pinfold.policy.text.errors import placed_text, position_text


def finding_text(finding: Finding, source: str) -> str:
    """`file:line:column: where: what — fix`, with the excerpt below."""
    place = position_text(source, finding.line, finding.column)
    is_advice = finding.problem.is_advice
    return placed_text(place, finding.message, is_advice=is_advice, excerpt=finding.excerpt)

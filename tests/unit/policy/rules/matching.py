"""Containers for which an expression holds, as a newcomer's rules find them."""

from pinfold.policy.model.container import ContainerId
from pinfold.policy.rules.affinity_index import RULE_STEPS, AffinityIndex
from pinfold.policy.rules.evaluation import Steps
from pinfold.policy.rules.expression import Expression
from pinfold.policy.rules.selection import Selection


def matching(index: AffinityIndex, expression: Expression) -> frozenset[ContainerId]:
    residents = index.residents
    selection = Selection(residents, Steps(RULE_STEPS))
    return frozenset(residents.ids(selection.select(expression, residents.everyone)))

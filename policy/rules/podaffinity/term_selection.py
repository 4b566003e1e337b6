"""Selection of the containers that a term is about, out of all that are there.

Sets of containers are bit sets of places, see `Residents`: the cost of a requirement does not grow
with the number of containers it selects from.
"""

from collections.abc import Sequence
from typing import Final

from ...model.container import Container
from ...model.selector_operator import LabelOperator
from ..container_facts import Subkey
from ..key_column import KeyColumn
from ..residents import Residents
from .label_selector import LabelRequirement, LabelSelector
from .namespace_scope import NamespaceScope
from .rule_set import SpreadRule
from .term import CONTAINER_NAME, POD_NAME, POD_QOS, POD_UID, Term

# Members of an enum are looked up by a call of Python.
_IN: Final = LabelOperator.IN
_EXISTS: Final = LabelOperator.EXISTS
_DOES_NOT_EXIST: Final = LabelOperator.DOES_NOT_EXIST
_POD_ID: Final = Subkey("pod/id")
_POD_UID: Final = Subkey("pod/uid")
_NAMESPACE: Final = Subkey("namespace")
_NAME: Final = Subkey("name")
_PSEUDO: Final = {
    CONTAINER_NAME: _NAME,
    POD_NAME: Subkey("pod/name"),
    POD_QOS: Subkey("pod/qosclass"),
}


def select_term(residents: Residents, owner: Container, term: Term) -> int:
    """The containers for which `term.matches` of this owner."""
    found = select_included(residents, owner, term)
    return found & ~instances(residents, owner) if found else 0


def select_included(residents: Residents, owner: Container, term: Term) -> int:
    """The containers that a term of this owner `includes`, itself among them if it does."""
    if term.selector is None:
        return 0
    if term.is_pod_scope:
        places = _of_pod(residents, owner)
    else:
        places = _of_namespaces(residents, owner, term)
    return _select(residents, term.selector, places)


def select_spread(residents: Residents, owner: Container, rule: SpreadRule) -> int:
    """The containers that a spread rule of this owner counts."""
    found = select_counted(residents, owner.pod.namespace, rule)
    return found & ~instances(residents, owner) if found else 0


def select_counted(residents: Residents, namespace: str, rule: SpreadRule) -> int:
    """The containers that a spread rule counts, whoever of a namespace owns it; owners, too."""
    if rule.selector is None:
        return 0
    return _select(residents, rule.selector, _value(residents, _NAMESPACE, namespace))


def instances(residents: Residents, container: Container) -> int:
    """The container itself and other instances of it, of which a rule never speaks."""
    return _of_pod(residents, container) & _value(residents, _NAME, container.name)


def _of_pod(residents: Residents, container: Container) -> int:
    uid = container.pod.uid
    if uid:
        return _value(residents, _POD_UID, uid)
    # A pod is known by its uid where it has one.
    return _value(residents, _POD_ID, container.pod.id) & ~residents.column(_POD_UID).places


def _of_namespaces(residents: Residents, owner: Container, term: Term) -> int:
    scope: NamespaceScope = term.namespaces
    own = owner.pod.namespace
    if scope.is_everything:
        return residents.everyone
    by_name, places = residents.column(_NAMESPACE).by_value, 0
    if scope.selector is None:
        for name in scope.names or (own,):
            places |= by_name.get(name, 0)
        return places
    for name, of_name in by_name.items():
        if scope.holds(name, term.namespace_labels, own):
            places |= of_name
    return places


def _select(residents: Residents, selector: LabelSelector, places: int) -> int:
    for requirement in selector.in_order:
        if not places:
            break
        places = _narrowed(residents, requirement, places)
    return places


def _narrowed(residents: Residents, requirement: LabelRequirement, places: int) -> int:
    operator, key = requirement.operator, requirement.key
    has_to = operator is _EXISTS or operator is _IN
    column = None
    if key == POD_UID or key in _PSEUDO:
        if operator is _EXISTS or operator is _DOES_NOT_EXIST:
            return places if has_to else 0
    else:
        column = residents.label_column(key)
        if column is None:
            # Nobody has it, as with most of hundreds of keys.
            return 0 if has_to else places
        if operator is _EXISTS or operator is _DOES_NOT_EXIST:
            return places & (column.places if has_to else ~column.places)
    found = _with_values(residents, key, requirement.values, column)
    return places & (found if has_to else ~found)


def _with_values(
    residents: Residents, key: str, values: Sequence[str], column: KeyColumn | None
) -> int:
    """The containers with one of some values. `column`: those of a key that is a label's."""
    if column is None:
        column = residents.column(_PSEUDO.get(key, _POD_UID))
    by_value, found = column.by_value, 0
    for value in values:
        found |= by_value.get(value, 0)
    if key == POD_UID:
        by_id = residents.column(_POD_ID).by_value
        without_uid = ~residents.column(_POD_UID).places
        for value in values:
            found |= by_id.get(value, 0) & without_uid
    return found


def _value(residents: Residents, subkey: Subkey, value: str) -> int:
    return residents.column(subkey).by_value.get(value, 0)

"""Owners that must be with a container that goes: they hold it where they have no other one."""

import pytest

from tests.unit.policy.engine.ruled_pods import (
    NODES,
    apart,
    container_of,
    engine_of,
    near,
    placed,
    reason,
    term,
)
from tests.unit.policy.engine.test_replacement import follow, lasting, node, pool


@pytest.mark.parametrize("kube_compat", ["document", "strict"])
def test_nobody_stays_for_one_that_has_another_beside_it(kube_compat: str) -> None:
    engine = engine_of(NODES, kubeCompat=kube_compat)
    placed(engine, shy := container_of("shy", 0.5, lasting(apart(term("numa", "wolf")))))
    (number,) = node(engine, shy)
    placed(engine, container_of("twin", 0.2, app="shy", annotations=pool(number)))
    placed(engine, container_of("fan", 0.2, near(term("numa", "shy")), annotations=pool(number)))
    placed(engine, container_of("wolf", 0.5, fails=True, annotations=pool(number)))
    follow(engine, shy)
    assert node(engine, shy) != {number}
    assert not any(one.unmet for one in engine.decisions.values())


def test_nobody_stays_for_one_whose_rules_are_not_all_about_it() -> None:
    """Where one container has to meet all of them, as in Kubernetes' code."""
    engine = engine_of(NODES, kubeCompat="strict")
    placed(engine, shy := container_of("shy", 0.5, lasting(apart(term("numa", "wolf")))))
    (number,) = node(engine, shy)
    tall = term("numa", labelSelector={"matchLabels": {"size": "tall"}})
    twin = container_of("twin", 0.2, app="shy", labels={"size": "tall"}, annotations=pool(number))
    placed(engine, twin)
    rules = near(term("numa", "shy"), tall)
    placed(engine, container_of("fan", 0.2, rules, annotations=pool(number)))
    placed(engine, container_of("wolf", 0.5, fails=True, annotations=pool(number)))
    follow(engine, shy)
    assert not any(one.unmet for one in engine.decisions.values())


def test_who_is_in_two_domains_needs_others_in_both() -> None:
    engine = engine_of("socket:1 numa:3 core:4 mem:8G")
    placed(engine, container_of("full", 4, annotations=pool(2)))
    placed(engine, shy := container_of("shy", 0.5, lasting(apart(term("numa", "wolf")))))
    (number,) = node(engine, shy)
    placed(engine, container_of("twin", 0.5, app="shy", annotations=pool(1 - number)))
    placed(engine, fan := container_of("fan", 4.5, near(term("numa", "shy"))))
    assert node(engine, fan) == {0, 1}
    placed(engine, container_of("wolf", 0.5, fails=True, annotations=pool(number)))
    assert reason(engine.place_anew(shy.id)) == "default/fan/main must be with it"

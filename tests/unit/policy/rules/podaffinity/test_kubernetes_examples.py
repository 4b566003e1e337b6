"""Examples of Kubernetes' documentation and design, with our levels for their topology keys."""

import pytest

from .rule_cases import container, rules_of

SECURITY = """\
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - labelSelector:
      matchExpressions:
      - key: security
        operator: In
        values:
        - S1
    topologyKey: socket
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      labelSelector:
        matchExpressions:
        - key: security
          operator: In
          values:
          - S2
      topologyKey: socket
"""
TENANTS = """\
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - matchLabelKeys:
      - tenant
    labelSelector: {}
    topologyKey: socket
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - mismatchLabelKeys:
    - tenant # whatever it is for this pod, keep away from pods of a different tenant
    labelSelector:
      # only pods that have a tenant
      matchExpressions:
      - key: tenant
        operator: Exists
    topologyKey: socket
"""
NODES = """\
poolAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - key: socket
        operator: In
        values:
        - "0"
        - "1"
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 1
    preference:
      matchExpressions:
      - key: another-node-label-key
        operator: In
        values:
        - another-node-label-value
"""


def test_pods_of_two_kinds_of_security() -> None:
    owner, rules, problems = rules_of(SECURITY)
    assert problems == ()
    (near,), (apart,) = rules.required, rules.preferred
    assert near.term.matches(owner, container(labels={"security": "S1"}))
    assert apart.weight == -100
    assert apart.term.matches(owner, container(labels={"security": "S2"}))
    assert not apart.term.matches(owner, container(labels={"security": "S1"}))


def test_tenants_are_together_and_apart_from_others() -> None:
    owner, rules, problems = rules_of(TENANTS, labels={"tenant": "a"})
    assert problems == ()
    near, apart = (rule.term for rule in rules.required)
    found = {
        tenant: (near.matches(owner, other), apart.matches(owner, other))
        for tenant, other in (
            ("a", container(labels={"tenant": "a"})),
            ("b", container(labels={"tenant": "b"})),
            ("none", container()),
        )
    }
    assert found == {"a": (True, False), "b": (False, True), "none": (False, False)}


def test_tenants_without_a_selector_are_told_what_to_write() -> None:
    _, rules, (problem,) = rules_of(TENANTS.replace("    labelSelector: {}\n", ""))
    assert [rule.is_anti for rule in rules.required] == [True]
    assert "label keys without labelSelector — write labelSelector: {} beside them" in problem


def test_pools_in_place_of_zones() -> None:
    _, rules, problems = rules_of(NODES)
    assert problems == ()
    (requirement,), (preference,) = rules.pool_required, rules.pool_preferred
    assert [requirement.holds({"socket": one}) for one in ("0", "1", "2")] == [True, True, False]
    assert preference.term.matches({"another-node-label-key": "another-node-label-value"})


@pytest.mark.parametrize(
    ("expression", "is_blocked"),
    [
        pytest.param(
            "{key: service, operator: In, values: [evil]}",
            {"evil": True, "S": False, "none": False},
            id="not beside the evil service",
        ),
        pytest.param("", {"evil": True, "S": True, "none": True}, id="beside nobody at all"),
        pytest.param(
            "{key: service, operator: NotIn, values: [S]}",
            {"evil": True, "S": False, "none": True},
            id="beside nobody but its own service",
        ),
    ],
)
def test_whom_a_service_keeps_away_from(expression: str, is_blocked: dict[str, bool]) -> None:
    selector = f"{{matchExpressions: [{expression}]}}"
    owner, rules, problems = rules_of(
        "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
        f" [{{topologyKey: numa, labelSelector: {selector}}}]}}",
        labels={"service": "S"},
    )
    assert problems == ()
    (rule,) = rules.required
    others = {
        "evil": container(labels={"service": "evil"}),
        "S": container(labels={"service": "S"}),
        "none": container(),
    }
    assert {name: rule.term.matches(owner, one) for name, one in others.items()} == is_blocked

"""What hostile texts cost, and what those that have no rules do not."""

import gc
import time

import pytest

from pinfold.policy.annotations.annotation_budget import admit
from pinfold.policy.configuration.affinity_fields import RULES_MAX
from pinfold.policy.configuration.config import Config
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.rules.podaffinity.affinity_text import MAX_FAULTS
from pinfold.policy.rules.podaffinity.rule_set import NO_PLACEMENT_RULES
from pinfold.policy.rules.podaffinity.rule_text import placement_rules
from tests.bench.hostile_pods import hostile_pods

from .rule_cases import container

HOSTILE = {
    name: texts
    for name, texts in hostile_pods().items()
    if any(key.partition("/")[0].endswith(".pinfold.dev") for key in texts)
}


def test_there_are_hostile_rules() -> None:
    assert sum("term" in name for name in HOSTILE) > 7


@pytest.mark.parametrize("name", HOSTILE)
def test_rules_of_strangers_cost_little_and_little_is_said_of_them(name: str) -> None:
    labels = {f"l{one}": "v" * 300 for one in range(100)}
    gc.collect()
    started = time.thread_time()
    annotations = admit(HOSTILE[name], "default/web").annotations
    rules, problems = placement_rules(container(labels=labels, annotations=annotations), Config())
    # The goal is 20 ms, and the worst of these takes 10 on an idle machine.
    assert time.thread_time() - started < 0.2
    assert len(rules.required) + len(rules.preferred) <= RULES_MAX
    assert len(problems) <= 3 * MAX_FAULTS + 3


def test_a_pod_of_the_configurations_rules_alone_has_no_text_of_its_own() -> None:
    config = read_config("profiles: [{name: all, addedAffinity: {}}]").config
    assert placement_rules(container(), config) == (NO_PLACEMENT_RULES, ())

"""Law of tables of candidates: made without documents, they have the text that these would give."""

import json

import msgspec
import pytest

from pinfold.cmd.control.decision_document import decision_document
from pinfold.cmd.control.history.candidate_table import candidate_table
from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import ContainerId
from pinfold.topology.model.machine import Machine
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

STEPS = 250


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_table_has_the_text_of_its_documents(machine: Machine) -> None:
    walk = KindsWalk(machine, 7)
    seen: dict[ContainerId, Decision] = {}
    ranked, dropped = 0, 0
    for _ in range(STEPS):
        walk.step()
        engine = walk.engine
        for container_id, decision in engine.decisions.items():
            lineup = decision.lineup
            if lineup is None or seen.get(container_id) is decision:
                continue
            seen[container_id] = decision
            document = decision_document(engine.containers[container_id], decision, {})
            text = candidate_table(lineup)
            assert text == msgspec.json.encode(document.candidates)
            assert candidate_table(lineup.packed()) == text
            ranked += sum(one["rank"] is not None for one in json.loads(text))
            dropped += sum(one["dropped"] is not None for one in json.loads(text))
    assert ranked
    assert dropped

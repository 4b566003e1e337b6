"""Law of tables of candidates: what is read from one is what the documents would have said."""

import msgspec
import pytest

from pinfold.cmd.control.decision_document import decision_document
from pinfold.cmd.control.history.candidate_table import candidate_table, parse_candidates
from pinfold.policy.engine.decision import Decision
from pinfold.policy.model.container import ContainerId
from pinfold.topology.model.machine import Machine
from tests.property.kinds_walk import KindsWalk
from tests.property.walk_machines import MACHINES

STEPS = 250


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_table_has_all_that_its_documents_say(machine: Machine) -> None:
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
            text = msgspec.json.encode(candidate_table(lineup))
            found = parse_candidates(text, msgspec.json.encode(lineup.names))
            assert found == document.candidates
            # In the criteria's order, too.
            assert msgspec.json.encode(found) == msgspec.json.encode(document.candidates)
            assert msgspec.json.encode(candidate_table(lineup.packed())) == text
            ranked += sum(one.rank is not None for one in found)
            dropped += sum(one.dropped is not None for one in found)
    assert ranked
    assert dropped

"""Joint replacement as laws: owners go with others, all or nobody, and no rule breaks by it."""

import pytest
from msgspec import structs

from pinfold.policy.engine.replacing.companies import COMPANY_MAX
from pinfold.policy.engine.replacing.joint_replacement import plan_together
from pinfold.policy.engine.replacing.unmet_names import unmet_after
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.grant import Grant
from tests.property import test_rule_laws as laws
from tests.property.test_mending_laws import SociableWorld
from tests.unit.policy.engine.ruled_pods import IGNORED, LASTING, NEVER

STEPS, EVERY = 60, 4
TOGETHER = (9, 19, 33, 42, 43, 53, 54, 140, 259)
"""Seeds by which some go together, in some of them for rules ignored during execution."""
SEEDS = (*range(12), *TOGETHER[1:])


class World(SociableWorld):
    """A world of small containers, some rules of which are required during execution, too."""

    joint = brought = 0

    def new_pod(self) -> laws.Pod:
        pod, draw = super().new_pod(), self.random
        inner = pod.container.pod
        texts = dict(inner.annotations)
        if draw.random() < 0.6:
            texts = {key: text.replace(IGNORED, LASTING) for key, text in texts.items()}
        texts |= NEVER if draw.random() < 0.1 else {}
        container = structs.replace(pod.container, pod=structs.replace(inner, annotations=texts))
        return laws.Pod(container, pod.app, pod.rules, pod.fails)

    def mend(self) -> None:
        """Move the owners of rules that do not hold, with others, as a daemon does."""
        for owner_id in [one for one, texts in self.engine.look_at_rules().items() if texts]:
            unmet_after(self.engine, owner_id)
            steps = plan_together(self.engine.snapshot(), owner_id, COMPANY_MAX)
            assert steps == plan_together(self.engine.snapshot(), owner_id, COMPANY_MAX)
            before, company = self.unmet(), self.with_company()
            going = {one.container_id for one in steps}
            paths = tuple(f" of {self.pods[one].container.path}" for one in going)
            for step in steps:
                decision = self.engine.place_anew(
                    step.container_id, step.asked, mends_told=step.follows
                )
                self.note(f"goes {step}", decision.result)
                assert isinstance(decision.result, Grant), "each step is legal"
                self.engine.check()
                unmet_after(self.engine, step.container_id)
                new = self.unmet() - before
                assert all(one.endswith(paths) for one in new), "only rules of those who go break"
                self.assert_apart()
                self.brought += step.follows
            if steps:
                self.joint += 1
                self.assert_mended(owner_id, before, company)

    def assert_mended(
        self,
        owner_id: ContainerId,
        before: set[str],
        company: set[tuple[ContainerId, laws.Rule]],
    ) -> None:
        assert not self.unmet() - before, "no rule is broken that was not"
        assert company <= self.with_company(), "nobody is left alone"
        path = f" of {self.pods[owner_id].container.path}"
        own = {one for one in before if one.endswith(path)}
        assert own - self.unmet(), "and one of the owner's holds"

    def assert_apart(self) -> None:
        for broken in self.broken():
            raise AssertionError(broken)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_owner_goes_with_others_and_no_rule_breaks(seed: int) -> None:
    """Holds for 400 seeds."""
    world = World(laws.MACHINES[seed % len(laws.MACHINES)], seed)
    for number in range(STEPS):
        world.step()
        if number % EVERY == 0:
            world.mend()
    assert world.joint or seed not in TOGETHER

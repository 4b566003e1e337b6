from pinfold.nri.cri.known_containers import InstanceKey, KnownContainers
from pinfold.policy.model.container import ContainerId, PodId

KEY = InstanceKey("pod", "web", 2)
NAMES = ContainerId("pod/web/2")


def test_a_container_is_known_by_its_names_until_the_runtime_gives_it_an_id() -> None:
    known = KnownContainers()
    one = known.begin(KEY)
    assert (one.policy_id, known.runtime_id(NAMES)) == (NAMES, "")
    known.bind(one, "r1")
    assert (known.policy_id("r1"), known.runtime_id(NAMES)) == (NAMES, "r1")
    assert known.policy_id("somebody-elses") == "somebody-elses"


def test_the_end_of_an_instance_that_was_made_again_is_not_that_of_the_present_one() -> None:
    """Somebody removed it past the proxy, and the kubelet made it once more."""
    known = KnownContainers()
    one = known.begin(KEY)
    known.bind(one, "r1")
    assert known.begin(KEY) is one
    known.bind(one, "r2")
    assert known.policy_id("r1") == "r1"
    known.forget_runtime_id("r1")
    assert known.runtime_id(NAMES) == "r2"


def test_nothing_is_kept_of_a_sandbox_that_is_gone_but_what_is_being_created() -> None:
    known = KnownContainers()
    begun, made = known.begin(KEY), known.begin(KEY._replace(attempt=3))
    made.creations -= 1
    known.bind(made, "r3")
    known.forget_sandbox(PodId("pod"))
    assert known.get(KEY) is begun
    assert known.policy_id("r3") == "r3"

"""Rules between containers that run already, and go where nobody would have placed them."""

from tests.unit.policy.engine.ruled_pods import apart, container_of, cpus, engine_of, placed, term

TWO_NODES = "socket:2 core:3 mem:4G"
"""Cpus 0 to 2 (0 is reserved), and 3 to 5."""

FIRST, SECOND = ({"pool-name.pinfold.dev/pod": f"socket #{number}"} for number in (0, 1))


def test_who_runs_and_fits_nowhere_does_not_grow_to_where_its_rule_breaks() -> None:
    """It is on all cpus that are left; those that come back are next to whom it must not be."""
    engine = engine_of(TWO_NODES)
    other, noisy = container_of("other", 2), container_of("noisy", 1, annotations=SECOND)
    assert (placed(engine, other), placed(engine, noisy)) == ("3-4", "5")
    alone = container_of("alone", 3, apart(term("socket", "noisy")), fails=True)
    engine.adopt(alone)
    assert cpus(engine, alone) == "1-2"
    engine.remove(other.id)
    engine.check()
    assert cpus(engine, alone) == "1-2"
    engine.remove(noisy.id)
    assert cpus(engine, alone) == "1-5"

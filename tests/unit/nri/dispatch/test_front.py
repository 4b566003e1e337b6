"""What other parts of the daemon ask of a front."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pinfold.nri.dispatch.front import take_snapshot
from pinfold.policy.configuration.config import Config
from pinfold.policy.engine.engine import Engine
from pinfold.topology.made.spec import machine_from_spec
from tests.unit.nri.loopback import loopback

MACHINE = machine_from_spec("socket:1 numa:1 core:2 thread:1 mem:1G")
SECONDS = 10.0


def test_a_snapshot_that_waits_for_a_reload_is_of_what_that_put_in_force() -> None:
    begun, may_go = threading.Event(), threading.Event()
    other = Config(pin_cpu=False)
    with loopback(Engine(MACHINE, Config())) as node, ThreadPoolExecutor(1) as thread:

        def reload() -> None:
            begun.set()
            assert may_go.wait(SECONDS)
            node.plugin.events.reconfigure(other)

        node.plugin.owner.submit("reload", reload)
        assert begun.wait(SECONDS)
        asked = thread.submit(take_snapshot, node.plugin, "look", SECONDS)
        time.sleep(0.1)
        may_go.set()
        assert asked.result(SECONDS).config == other

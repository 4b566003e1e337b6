"""Proxy and runtime both end, with a call under way, and come back: in every order."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from pinfold.nri.cri.hooks import ADOPTION_SECONDS
from pinfold.nri.cri.upstream import CONNECT_SECONDS
from tests.e2e.cri import Cri
from tests.unit.nri.cri.proxied_node import ProxiedNode, eventually, proxied_node
from tests.unit.nri.cri.raw_runtime import RawClient

PATIENCE_SECONDS = CONNECT_SECONDS + ADOPTION_SECONDS + 5.0


@pytest.fixture(name="node")
def fixture_node(tmp_path: Path) -> Generator[ProxiedNode]:
    with proxied_node(tmp_path) as node:
        yield node


def end(node: ProxiedNode, which: str) -> None:
    if which == "proxy":
        node.end_proxy()
    else:
        node.server.stop()


def come_back(node: ProxiedNode, which: str) -> None:
    if which == "proxy":
        node.start_proxy()
    else:
        node.server.start(str(node.runtime_socket))


@pytest.mark.parametrize("back", [("proxy", "runtime"), ("runtime", "proxy")], ids="-".join)
@pytest.mark.parametrize("down", [("proxy", "runtime"), ("runtime", "proxy")], ids="-".join)
def test_both_end_during_a_creation_and_come_back(
    node: ProxiedNode, down: tuple[str, str], back: tuple[str, str]
) -> None:
    shared, own = node.run("shared"), node.run("own", 2000)
    node.settled()
    before = node.cpus(shared), node.cpus(own)
    assert before == ("3-7", "1-2")
    pod, gate, is_created = node.run_pod("late"), threading.Event(), threading.Event()

    def stay(method: str) -> None:
        if method == "CreateContainer" and not is_created.is_set():
            is_created.set()
            gate.wait(10)

    node.server.after = stay
    kubelet = Cri(node.socket, PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(node.create, pod, "late", 1000, cri=kubelet)
        assert is_created.wait(5)
        for which in down:
            if which == "runtime":
                # Its threads have to end with it; it is the connection that ends first.
                threading.Timer(0.2, gate.set).start()
            end(node, which)
        with pytest.raises(grpc.RpcError):
            call.result(PATIENCE_SECONDS)
        for which in back:
            come_back(node, which)
    assert node.proxy.wait_until_ready(5), "within five seconds of the runtime's return"
    node.settled()
    (late,) = [one for one in node.runtime.containers if one not in (shared, own)]
    assert {one.shown_id for one in node.snapshot().containers.values()} == {
        *(shared, own, late)
    }, "the one that was created without an answer is known"
    # A kubelet that asks again finds the name taken, and starts what it finds in the list.
    with pytest.raises(grpc.RpcError, match="is reserved"):
        node.create(pod, "late", 1000, cri=kubelet)
    node.kubelet.start_container(late)
    node.settled()
    assert (node.cpus(own), node.cpus(late)) == ("1-2", "3")
    assert eventually(lambda: node.cpus(shared) == "4-7")
    kubelet.close()
    for one in (own, late):
        node.kubelet.remove_container(one)
    node.settled()
    assert node.cpus(shared) == "1-7"
    node.proxy.owner.ask("check", node.engine.check, 10)


@pytest.mark.parametrize("which", ["proxy", "runtime"])
def test_a_kubelet_sees_unavailable_while_one_of_them_is_down(
    node: ProxiedNode, which: str
) -> None:
    end(node, which)
    client = RawClient(node.socket)
    with pytest.raises(grpc.RpcError) as found:
        client.unary("Version", b"")
    client.channel.close()
    assert isinstance(found.value, grpc.Call)
    assert found.value.code() is grpc.StatusCode.UNAVAILABLE
    come_back(node, which)
    assert node.proxy.wait_until_ready(5)
    assert node.kubelet.version().runtime_name == "embedded"

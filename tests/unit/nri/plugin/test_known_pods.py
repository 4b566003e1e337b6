"""Pods are read once, and again where anything in their message is another."""

from pinfold.nri.api import nri_pb2
from pinfold.nri.plugin.known_pods import BYTES_MAX, PODS_MAX, KnownPods
from pinfold.nri.plugin.messages import pod_value
from pinfold.nri.plugin.string_entries import write_entries


def sandbox(pod_id: str = "p", app: str = "web") -> nri_pb2.PodSandbox:
    return nri_pb2.PodSandbox(id=pod_id, name=f"{pod_id}-0", labels=write_entries({"app": app}))


def test_the_pod_of_equal_messages_is_one_value() -> None:
    known = KnownPods()
    first = known.read(sandbox())
    assert first == pod_value(sandbox())
    assert known.read(sandbox()) is first


def test_a_pod_whose_message_differs_is_read_again() -> None:
    known = KnownPods()
    known.read(sandbox())
    assert known.read(sandbox(app="db")) == pod_value(sandbox(app="db"))
    assert known.read(sandbox()) == pod_value(sandbox())


def test_a_message_that_is_changed_later_changes_nothing_that_is_known() -> None:
    known, message = KnownPods(), sandbox()
    first = known.read(message)
    message.name = "another"
    assert known.read(message).name == "another"
    assert first.name == "p-0"


def test_only_the_latest_pods_are_kept() -> None:
    known = KnownPods()
    first = known.read(sandbox())
    last = [known.read(sandbox(f"p{number}")) for number in range(PODS_MAX)][-1]
    assert known.read(sandbox()) is not first
    assert known.read(sandbox(f"p{PODS_MAX - 1}")) is last


def test_a_pod_with_a_very_long_message_is_not_kept() -> None:
    known, message = KnownPods(), sandbox(app="x" * BYTES_MAX)
    assert known.read(message) is not known.read(message)

"""Labels and annotations are read entry by entry, and of very many only a few."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.nri.api import nri_pb2
from pinfold.nri.plugin.messages import pod_value
from pinfold.nri.plugin.string_entries import (
    NAMES_MAX,
    READ_MAX,
    decode_annotations,
    decode_labels,
    read_entries,
    write_entries,
)
from pinfold.policy.rules.container_facts import KUBELET_LABELS
from pinfold.policy.rules.label_budget import LABELS_MAX

OURS = {"smt.pinfold.dev/pod": "pack", "noderesource.dev/resources": "{}"}


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9)))
def test_what_is_written_is_read(texts: dict[str, str]) -> None:
    assert read_entries(write_entries(texts)) == texts


def test_entries_are_those_of_a_map_on_the_wire() -> None:
    texts = {"a": "1", "b": "", "": "2"}
    as_map = nri_pb2.Container(labels=texts).SerializeToString()
    assert read_entries(nri_pb2.PodSandbox.FromString(as_map).labels) == texts


def test_a_malformed_entry_is_left_out_and_the_others_are_read() -> None:
    assert read_entries([b"\n\xff", *write_entries({"a": "1"}), b"\n\x01\xff"]) == {"a": "1"}


def test_annotations_for_us_are_found_among_any_number_of_others() -> None:
    others = {f"k{number}": "" for number in range(50_000)}
    assert decode_annotations(write_entries(others | OURS)) == (OURS, 0)


@pytest.mark.parametrize(
    ("ours", "others", "read"),
    [
        pytest.param(NAMES_MAX, 0, NAMES_MAX, id="as many as may be"),
        pytest.param(NAMES_MAX + 1, 0, 0, id="one more, and none is read"),
        pytest.param(NAMES_MAX, 50_000, NAMES_MAX, id="as many as may be among many others"),
        pytest.param(NAMES_MAX + 1, 50_000, 0, id="one more among many others"),
    ],
)
def test_of_too_many_annotations_that_may_be_ours_none_is_read(
    ours: int, others: int, read: int
) -> None:
    entries = write_entries(
        dict.fromkeys([f"nri{number}" for number in range(ours)], "")
        | dict.fromkeys([f"k{number}" for number in range(others)], "")
    )
    random.Random(1).shuffle(entries)
    found, unread = decode_annotations(entries)
    assert len(found) == read
    assert unread == (0 if read else ours + others)


@given(st.data())
def test_the_order_of_the_entries_does_not_matter(data: st.DataObject) -> None:
    entries = write_entries({f"k{number}": "" for number in range(READ_MAX)} | OURS)
    split = data.draw(st.integers(0, len(entries)))
    assert decode_annotations(entries[split:] + entries[:split]) == (OURS, 0)


def test_a_pod_is_told_how_many_annotations_it_has() -> None:
    keys = [f"nri{number}" for number in range(20_000)]
    pod = pod_value(nri_pb2.PodSandbox(id="p", annotations=write_entries(dict.fromkeys(keys, ""))))
    assert not pod.annotations
    assert "20000 annotations, of which none is read" in str(pod.annotation_problems[0])


def test_of_too_many_labels_the_kubelets_and_the_shortest_are_read() -> None:
    kubelets = dict.fromkeys(KUBELET_LABELS, "x")
    many = {f"k{number}": "" for number in range(READ_MAX)}
    found, left_out = decode_labels(write_entries(many | kubelets))
    assert len(found) == LABELS_MAX + len(kubelets)
    assert kubelets.items() <= found.items()
    assert left_out == READ_MAX - LABELS_MAX
    pod = pod_value(nri_pb2.PodSandbox(id="p", labels=write_entries(many | kubelets)))
    assert len(pod.labels) == LABELS_MAX
    assert f"{len(many | kubelets)} labels" in str(pod.annotation_problems[0])


def test_of_labels_that_look_like_the_kubelets_no_more_are_read_than_of_others() -> None:
    kubelets = dict.fromkeys(KUBELET_LABELS, "x")
    like = {f"io.kubernetes.pod.{number}": "io.kubernetes.pod.uid" for number in range(READ_MAX)}
    found, left_out = decode_labels(write_entries(like | kubelets))
    assert kubelets.items() <= found.items()
    assert len(found) <= LABELS_MAX + len(kubelets)
    assert left_out == len(like | kubelets) - len(found)

import json
from pathlib import Path

import pytest

from pinfold.nri.cri.cdi_specs import CdiEdits, DeviceNode, cdi_edits

GPUS = {
    "cdiVersion": "0.6.0",
    "kind": "vendor.com/gpu",
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0"}]}},
        {
            "name": "1",
            "containerEdits": {
                "deviceNodes": [{"path": "/dev/gpu", "hostPath": "/dev/gpu1"}, {"path": 7}]
            },
        },
    ],
    "containerEdits": {"deviceNodes": [{"path": "/dev/control"}]},
}


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        ([], []),
        (["vendor.com/gpu=0"], ["/dev/gpu0", "/dev/control"]),
        (["vendor.com/gpu=1"], ["/dev/gpu1", "/dev/control"]),
        (["vendor.com/gpu=9", "other.com/gpu=0", "nonsense"], []),
    ],
)
def test_a_device_has_its_own_nodes_and_those_of_its_kind(
    tmp_path: Path, names: list[str], paths: list[str]
) -> None:
    (tmp_path / "gpus.json").write_text(json.dumps(GPUS))
    assert list(cdi_edits(names, [tmp_path]).paths) == paths


def test_a_later_folder_counts_and_yaml_is_read(tmp_path: Path) -> None:
    early, late = tmp_path / "etc", tmp_path / "run"
    for folder in (early, late):
        folder.mkdir()
    (early / "gpus.json").write_text(json.dumps(GPUS))
    (late / "gpus.yaml").write_text(
        "kind: vendor.com/gpu\n"
        "devices: [{name: '0', containerEdits: {deviceNodes: [{path: /dev/new}], env: [A=1, 7]}}]\n"
    )
    assert cdi_edits(["vendor.com/gpu=0"], [early, late]) == CdiEdits(("/dev/new",), ("A=1",))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            {"type": "c", "major": 195, "minor": 1},
            CdiEdits(nodes=(DeviceNode("/dev/gpu1", "c", 195, 1),)),
            id="a device with its number is that, whatever is at its path",
        ),
        pytest.param(
            {"type": "b", "major": 259},
            CdiEdits(nodes=(DeviceNode("/dev/gpu1", "b", 259, 0),)),
            id="a minor number that is left out is 0",
        ),
        pytest.param({"major": 195, "minor": 1}, CdiEdits(("/dev/gpu1",)), id="no type"),
        pytest.param({"type": "p", "major": 1}, CdiEdits(("/dev/gpu1",)), id="a pipe"),
        pytest.param({"type": "c", "major": 0}, CdiEdits(("/dev/gpu1",)), id="no number"),
        pytest.param({"type": "c", "major": True}, CdiEdits(("/dev/gpu1",)), id="no integer"),
        pytest.param({"type": ["c"], "major": 1}, CdiEdits(("/dev/gpu1",)), id="no text"),
        pytest.param({"type": "c", "major": 1 << 40}, CdiEdits(("/dev/gpu1",)), id="too large"),
    ],
)
def test_numbers_that_are_written_down_count(
    tmp_path: Path, node: dict[str, object], expected: CdiEdits
) -> None:
    edits = {"deviceNodes": [{"path": "/dev/gpu1", **node}]}
    spec = {"kind": "vendor.com/gpu", "devices": [{"name": "1", "containerEdits": edits}]}
    (tmp_path / "gpus.json").write_text(json.dumps(spec))
    assert cdi_edits(["vendor.com/gpu=1"], [tmp_path]) == expected


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"devices": 3}', '{"devices": [4]}', "a: [b", "\ud83d" * 3]
)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_files_that_say_nothing_are_passed_over(tmp_path: Path, text: str, suffix: str) -> None:
    (tmp_path / f"bad{suffix}").write_bytes(text.encode("utf-8", "surrogatepass"))
    (tmp_path / "gpus.json").write_text(json.dumps(GPUS))
    (tmp_path / "huge.json").write_bytes(b" " * (2 << 20))
    assert cdi_edits(["vendor.com/gpu=0"], [tmp_path, tmp_path / "none"]).paths

import json
from pathlib import Path

import pytest

from pinfold.nri.cri.cdi_specs import CdiEdits, cdi_edits

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
    "text", ["", "{", "[]", "null", '{"devices": 3}', '{"devices": [4]}', "a: [b", "\ud83d" * 3]
)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_files_that_say_nothing_are_passed_over(tmp_path: Path, text: str, suffix: str) -> None:
    (tmp_path / f"bad{suffix}").write_bytes(text.encode("utf-8", "surrogatepass"))
    (tmp_path / "gpus.json").write_text(json.dumps(GPUS))
    (tmp_path / "huge.json").write_bytes(b" " * (2 << 20))
    assert cdi_edits(["vendor.com/gpu=0"], [tmp_path, tmp_path / "none"]).paths

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
APIS = (ROOT / "nri" / "api", ROOT / "cmd" / "control" / "api")
PROTOS = sorted(path for api in APIS for path in api.glob("*.proto"))
OF_TESTS = sorted((ROOT / "tests" / "e2e" / "api").glob("*.proto"))
GENERATED_WITH = re.compile(r"_runtime_version\.Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+),")


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None, reason="grpcio-tools is not installed"
)
@pytest.mark.parametrize("proto", [*PROTOS, *OF_TESTS], ids=lambda proto: proto.stem)
def test_generated_modules_are_those_of_the_proto_files(tmp_path: Path, proto: Path) -> None:
    folder, source = ".typing", Path("pinfold") / proto.relative_to(ROOT)
    if proto in OF_TESTS:
        folder, source = ".", proto.relative_to(ROOT)
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "-I", folder),
            *(f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"),
            str(source),
        ],
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    for suffix in ("_pb2.py", "_pb2.pyi"):
        fresh = (tmp_path / source.with_name(proto.stem + suffix)).read_text()
        committed = proto.with_name(proto.stem + suffix).read_text()
        assert fresh == committed, f"regenerate {proto.stem}{suffix}: make proto"


def test_no_older_protobuf_than_the_modules_need_can_be_installed() -> None:
    needed: set[tuple[str, ...]] = set()
    for proto in PROTOS:
        found = GENERATED_WITH.search(proto.with_name(f"{proto.stem}_pb2.py").read_text())
        assert found, proto
        needed.add(found.groups())
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [".".join(one) for one in sorted(needed)] == [
        one.removeprefix("protobuf>=") for one in wanted if one.startswith("protobuf>=")
    ]


def test_generated_modules_load_without_grpc_and_without_warnings() -> None:
    program = (
        "import sys, pinfold.nri.api.nri_pb2, pinfold.nri.api.ttrpc_pb2\n"
        "print([name for name in ('grpc', 'google.rpc') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert (run.stdout, run.stderr) == ("[]\n", "")

import json

import pytest

from pinfold.nri.api import cri_proxy_pb2 as cri
from pinfold.nri.cri.runtime_list import linux_sandbox_of

PARENT = "/kubepods/podu1"


def sandbox_info(linux: object) -> dict[str, str]:
    return {"info": json.dumps({"config": {"linux": linux}})}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        pytest.param({}, cri.LinuxSandbox(), id="a runtime that tells nothing"),
        pytest.param({"info": "{"}, cri.LinuxSandbox(), id="no JSON"),
        pytest.param({"info": "[]"}, cri.LinuxSandbox(), id="JSON of another kind"),
        pytest.param(sandbox_info([1]), cri.LinuxSandbox(), id="a list where an object is due"),
        pytest.param(
            sandbox_info({"cgroup_parent": PARENT}),
            cri.LinuxSandbox(cgroup_parent=PARENT),
            id="a pod without resources of its own",
        ),
        pytest.param(
            sandbox_info({"resources": {"cpu_shares": 4096, "cpu_quota": 400_000}}),
            cri.LinuxSandbox(resources=cri.Resources(cpu_shares=4096, cpu_quota=400_000)),
            id="a pod of 4 cpus",
        ),
        pytest.param(
            sandbox_info({"resources": {"cpu_shares": 1 << 63, "cpu_quota": "4", "other": 7}}),
            cri.LinuxSandbox(),
            id="numbers that are none",
        ),
    ],
)
def test_what_the_information_of_a_sandbox_tells(
    info: dict[str, str], expected: cri.LinuxSandbox
) -> None:
    assert linux_sandbox_of(info) == expected

"""A driver of claims: it says in a CDI file what its device brings to a container.

And to the container where the device is, in metadata that the kubelet mounts. Sources: the
Container Device Interface specification, 1.0, and Kubernetes' dynamic resource allocation, whose
kubelet hands the names of such devices to the runtime; KEP-5304.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ...policy.model.cpuset_conflicts import KUBELET_FOLDER
from ..cri.cdi_specs import DeviceNode

_KIND: Final = "pinfold.dev/claim"
_REQUEST: Final = "devices"


def metadata_folders(namespace: str, pod: str, container: str, resource: str) -> tuple[str, str]:
    """The folders of a claim's metadata, on the host and in the container.

    The claim is that of a container for devices of one resource, whose domain is the driver.
    """
    driver, _, word = resource.partition("/")
    claim = f"{pod}-{container}-{word}"
    return (
        f"{KUBELET_FOLDER}/plugins/{driver}/dra-device-metadata/{namespace}_{claim}/{_REQUEST}",
        f"/var/run/dra-device-attributes/{claim}/{_REQUEST}",
    )


class ClaimDriver:
    """A driver that writes below one folder, which it makes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def device(
        self, name: str, environment: Sequence[str], files: Iterable[DeviceNode] = ()
    ) -> str:
        """The full name of a device by which a container gets these variables and files."""
        nodes = [one._asdict() for one in files]
        edits = {"env": [*environment], "deviceNodes": nodes}
        spec = {
            "cdiVersion": "0.6.0",
            "kind": _KIND,
            "devices": [{"name": name, "containerEdits": edits}],
        }
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{name}.json").write_text(json.dumps(spec))
        return f"{_KIND}={name}"

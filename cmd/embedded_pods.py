"""Pods of manifests that a daemon's own embedded runtime runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..topology.sets.base_errors import PinfoldError
from .daemon.config_file import read_file

if TYPE_CHECKING:
    from ..nri.embedded.embedded_runtime import EmbeddedRuntime
    from ..policy.manifests.pod_spec import PodSpec

_CONNECTED_SECONDS: Final = 10.0


class EmbeddedPods:
    """The pods of manifests, in their order, and what is to be said of them."""

    def __init__(self, paths: Sequence[Path], runtime: str) -> None:
        """`paths`: of manifests; a node's daemon has none. Raises `FieldError`."""
        self._pods: list[PodSpec] = []
        self._remarks: list[str] = []
        if not paths:
            return
        if runtime != "embedded":
            raise click.UsageError("--manifest needs --runtime embedded")
        # Imported here, as below: a node's daemon has no pods of its own.
        from ..policy.manifests.manifest import pods_of
        from ..policy.text.yaml_fields import read_fields

        for path in paths:
            written = pods_of(read_fields(read_file(path), str(path)))
            self._pods += written.pods
            self._remarks += written.remarks

    def remarks(self) -> Iterator[str]:
        """Remarks about what counts for nothing in manifests, and devices that nobody has here."""
        yield from self._remarks
        for pod in self._pods:
            for one in pod.all_containers:
                if wanted := ", ".join([*one.devices, *one.claims]):
                    path = f"{pod.namespace}/{pod.name}/{one.name}"
                    yield (
                        f"{path}: {wanted}: the embedded runtime has no devices, it is placed"
                        " without — see with 'pinfold simulate' where it would be beside them"
                    )

    def run(self, runtime: EmbeddedRuntime, memory_bytes: int | None) -> None:
        """Create and start them once the daemon is the runtime's plugin."""
        from ..nri.embedded.kubelet import start_pods

        if not runtime.wait_until_synchronized(_CONNECTED_SECONDS):
            raise PinfoldError("embedded runtime: no plugin connected to it — look at the log")
        # Refusals are in the log already, as any decision.
        start_pods(runtime, self._pods, memory_bytes)

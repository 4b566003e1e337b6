"""The one container image of the tests: busybox alone, as an OCI archive. No registry is asked."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Final

NAME: Final = "localhost/pinfold-busybox:e2e"


def write_archive(busybox: Path, archive: Path) -> None:
    """Writes the archive for this busybox; the same busybox gives the same bytes.

    Source: OCI image specification, image-layout.md and config.md.
    """
    layer = _layer(busybox.read_bytes())
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Entrypoint": ["/bin/busybox"],
                "Cmd": ["sleep", "2147483647"],
                "Env": ["PATH=/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    annotations = {"io.containerd.image.name": NAME}
    index = _json({"schemaVersion": 2, "manifests": [{**entry, "annotations": annotations}]})
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", index)
        for blob in (layer, config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


def _layer(busybox: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", busybox, mode=0o755)
    return packed.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}

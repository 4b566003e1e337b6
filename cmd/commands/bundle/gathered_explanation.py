"""Explanations in a support bundle, as the daemon gave them when it was gathered."""

from pathlib import Path
from typing import Final

import msgspec

from ...control.documents import ExplainDocument
from .support_bundle import EXPLANATIONS, BundleError, read_bundle

_SHOWN_MAX: Final = 20


def gathered_explanation(bundle: Path, name: str) -> ExplainDocument:
    """The explanation of the one container that a name means. Raises `BundleError`.

    The name is `namespace/pod/container` or a part of that.
    """
    data = read_bundle(bundle, EXPLANATIONS)
    try:
        known = msgspec.json.decode(data, type=dict[str, ExplainDocument])
    except msgspec.DecodeError as error:
        raise BundleError(f"{bundle}: {error} — gather it anew") from error
    found = [path for path in known if path == name or path.endswith(f"/{name}")]
    found = found or [path for path in known if f"/{name}/" in f"/{path}/"]
    if len(found) == 1:
        return known[found[0]]
    listed = ", ".join(sorted(found or known)[:_SHOWN_MAX])
    what = "is one of several" if found else "is not in the bundle"
    raise BundleError(f"container: {name!r} {what} — name one: {listed}")

"""Documents of a running node as text: one JSON document, and the words for a pin."""

import msgspec

from ...control.documents import NodeDocument, PinDocument


def json_text(document: NodeDocument) -> str:
    """A document as one sorted JSON text."""
    # Imported where it is asked for: most people want text.
    import json

    return json.dumps(msgspec.to_builtins(document), indent=2, sort_keys=True, ensure_ascii=False)


def pin_text(pin: PinDocument | None) -> str:
    """Cpus and memory nodes in a few words.

    >>> pin_text(PinDocument(cpus="0-3", mems="0"))
    'cpus 0-3, memory 0'
    """
    if pin is None:
        return "unknown"
    return f"cpus {ids_text(pin.cpus)}, memory {ids_text(pin.mems)}"


def ids_text(ids: str | None) -> str:
    """Cpus or memory nodes in the kernel's list format; a word where there are none or all."""
    return "any" if ids is None else ids or "none"

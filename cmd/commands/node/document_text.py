"""Documents of a running node as text: the words for a pin."""

from ...control.documents import PinDocument


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

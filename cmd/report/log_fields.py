"""Log lines as `key=value` pairs, safe against whatever strangers call their pods."""

import json
import re
from functools import lru_cache
from typing import Final

from ...policy.model.container import Container
from ...policy.model.pinning import Pinning
from .escaped_text import escaped

_VALUE_MAX: Final = 1000
"""Characters of a value; of what strangers wrote no more than that gets into a line."""
_END_KEPT: Final = 400
"""Of these at the end of what is longer: what to do about it is said last."""
_KEPT_MAX: Final = 100
"""Characters of a value that is kept: strangers write long ones, and no two alike."""
_VALUES_KEPT: Final = 512
"""Of the values of a line most were in one before: pools, reasons, numbers."""
_JSON: Final = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` makes one for every text."""
_PLAIN: Final = re.compile(rf"[\w./:#,+@%*-]{{1,{_VALUE_MAX}}}", re.ASCII)


def fields(**values: object) -> str:
    """`key=value` pairs; values with other than plain characters are quoted as in JSON.

    >>> fields(pool="NUMA node #0", cpus="0-3")
    'pool="NUMA node #0" cpus=0-3'
    """
    return " ".join([f"{key}={_value(str(value))}" for key, value in values.items()])


def _value(text: str) -> str:
    return _kept(text) if len(text) <= _KEPT_MAX else _said(text)


def _said(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else escaped(_JSON.encode(_cut(text)))


_kept = lru_cache(_VALUES_KEPT)(_said)


def line(text: str) -> str:
    """A text as part of one line, without the middle where it is long."""
    return escaped(_cut(text))


def _cut(text: str) -> str:
    if len(text) <= _VALUE_MAX:
        return text
    return f"{text[: _VALUE_MAX - _END_KEPT - 1]}…{text[-_END_KEPT:]}"


def name_fields(container: Container) -> dict[str, str]:
    """Pod, name and id of a container."""
    return {
        "pod": f"{container.pod.namespace}/{container.pod.name}",
        "container": container.name,
        "id": container.shown_id,
    }


def pin_fields(pinning: Pinning) -> dict[str, str]:
    """Cpus and memory nodes of a pinning, "-" for what is left alone."""
    return {
        "cpus": "-" if pinning.cpus is None else str(pinning.cpus),
        "mems": "-" if pinning.mems is None else str(pinning.mems),
    }

"""The execution of required rules: what becomes of one that stops holding."""

import enum
from typing import Final


class Execution(enum.Enum):
    """The duty of a required rule while its container runs."""

    IGNORED = "ignored"
    """It counts when the container is placed."""
    REQUIRED = "required"
    """Its owner is placed anew when it stops holding."""

    # Members are compared by identity, and the hash of the name is a call of Python.
    __hash__ = object.__hash__


REQUIRED_FIELDS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": Execution.IGNORED,
    "requiredDuringSchedulingRequiredDuringExecution": Execution.REQUIRED,
}
"""Fields of Kubernetes' schema that hold required rules."""

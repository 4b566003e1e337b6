"""Results that are remembered by the strangers' texts they were made of, bounded in bytes.

Pods of one workload have the same texts. A cache of so many entries is not bounded by that alone:
one entry may hold a whole annotation. So long texts have a cache of their own, with few entries.
"""

import enum
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Final, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Value = str | bool | enum.Enum | tuple["_Value", ...]

SHORT_CHARACTERS: Final = 2048
"""Of all texts that a result is made of."""
SHORT_MAX: Final = 256
LONG_MAX: Final = 8


class TextCache(Generic[P, T]):
    """A function of texts and tuples of them whose latest results are remembered.

    At most `SHORT_MAX` of short texts and `LONG_MAX` of long ones, so that with the readers' limit
    on a text the whole is bounded. Safe for several threads.

    >>> double = TextCache(lambda text: text * 2)
    >>> double("ab")
    'abab'
    """

    def __init__(self, make: Callable[P, T]) -> None:
        update_wrapper(self, make)
        self._short = lru_cache(maxsize=SHORT_MAX)(make)
        self._long = lru_cache(maxsize=LONG_MAX)(make)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result, made where it is not remembered."""
        values: tuple[Any, ...] = (*args, *kwargs.values())
        return (self._short if _are_short(values) else self._long)(*args, **kwargs)  # type: ignore[arg-type]  # hashable

    def cache_clear(self) -> None:
        """Forget all of them, as in a process that has just started."""
        self._short.cache_clear()
        self._long.cache_clear()


def _are_short(values: tuple[_Value, ...]) -> bool:
    """Whether all texts among some values, and in tuples of them, are short together."""
    left, pending = SHORT_CHARACTERS, [values]
    while pending:
        for value in pending.pop():
            if isinstance(value, str):
                left -= len(value)
                if left < 0:
                    return False
            elif isinstance(value, tuple):
                pending.append(value)
    return True

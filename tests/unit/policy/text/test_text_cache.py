"""Results remembered by the texts they were made of."""

from pinfold.policy.text.text_cache import LONG_MAX, SHORT_CHARACTERS, SHORT_MAX, TextCache


def entries(cache: object) -> int:
    """The number of results that are remembered."""
    kept = [vars(cache)[one].cache_info().currsize for one in ("_short", "_long")]
    return int(sum(kept))


class Counting:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, texts: tuple[tuple[str, str], ...], name: str = "") -> int:
        self.calls += 1
        return len(texts) + len(name)


def test_the_same_texts_are_read_once() -> None:
    made = Counting()
    cached = TextCache(made)
    for _ in range(3):
        assert cached((("key", "short"),), "web") == 4
        assert cached((("key", "long" * SHORT_CHARACTERS),)) == 1
    assert (made.calls, entries(cached)) == (2, 2)


def test_few_long_texts_and_a_number_of_short_ones_are_remembered() -> None:
    cached = TextCache(Counting())
    for number in range(2000):
        cached((("key", f"{number}" + "x" * 60_000),))
    assert entries(cached) == LONG_MAX
    for number in range(2000):
        cached((("key", f"{number}"),), "web")
    assert entries(cached) == LONG_MAX + SHORT_MAX


def test_keys_and_names_count_as_texts() -> None:
    cached = TextCache(Counting())
    for number in range(100):
        cached(((f"{number}" + "k" * SHORT_CHARACTERS, ""),))
        cached((), name=f"{number}" + "n" * SHORT_CHARACTERS)
    assert entries(cached) == LONG_MAX


def test_everything_is_forgotten_on_demand() -> None:
    cached = TextCache(Counting())
    cached((("key", "text"),))
    cached.cache_clear()
    assert entries(cached) == 0

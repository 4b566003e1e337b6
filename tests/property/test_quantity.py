from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.policy.text.errors import ConfigError
from pinfold.policy.text.quantity import (
    CpuQuantity,
    parse_bytes,
    parse_cpu_amount,
    parse_khz,
    parse_milli,
    parse_nanoseconds,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
DECIMALS = st.from_regex(r"[0-9]{1,12}(\.[0-9]{0,12})?", fullmatch=True).filter(str.isascii)


@settings(deadline=None, max_examples=200)
@given(DECIMALS, st.sampled_from(sorted(SUFFIXES)))
def test_amounts_are_the_exact_value_rounded_up(number: str, suffix: str) -> None:
    exact = Fraction(number) * SUFFIXES[suffix]
    assert parse_bytes(number + suffix) == -(-exact.numerator // exact.denominator)
    milli = exact * 1000
    assert parse_milli(number + suffix) == -(-milli.numerator // milli.denominator)


@settings(deadline=None, max_examples=100)
@given(DECIMALS, st.integers(-20, 20))
def test_exponents_are_exact(number: str, exponent: int) -> None:
    exact = Fraction(number) * Fraction(10) ** exponent
    assert parse_bytes(f"{number}e{exponent}") == -(-exact.numerator // exact.denominator)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_thousandths_read_back(milli: int) -> None:
    assert parse_cpu_amount(f"{milli}m") == CpuQuantity(milli)


@settings(deadline=None, max_examples=300)
@given(st.text("0123456789.eEmkMGTiP+-cpuset:xhHzns \n", max_size=20) | st.text(max_size=20))
def test_any_text_is_an_amount_or_named_in_the_error(text: str) -> None:
    for parse in (parse_milli, parse_bytes, parse_cpu_amount, parse_khz, parse_nanoseconds):
        complaint = repr(text)
        try:
            parse(text)
        except ConfigError as error:
            complaint = str(error)
        assert repr(text) in complaint

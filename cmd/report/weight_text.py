"""Satisfied weights as text for people."""


def weight_text(score: int, scale: int, *, is_signed: bool = False) -> str:
    """A scaled weight in units of weight, with at most two decimals.

    >>> weight_text(384, 256), weight_text(-1, 256), weight_text(256, 256, is_signed=True)
    ('1.5', '0', '+1')
    """
    hundredths = (200 * abs(score) + scale) // (2 * scale)
    whole, part = divmod(hundredths, 100)
    sign = ""
    if hundredths:
        sign = "-" if score < 0 else "+" * is_signed
    return f"{sign}{whole}.{part:02}".rstrip("0").rstrip(".")

"""Where containers go and why: pure functions of values, from annotations to a `Decision`.

No I/O, clock, logger or environment. Imports `topology` only.
"""

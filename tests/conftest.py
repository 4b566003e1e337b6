"""Settings that hold for all tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code: others may have its cpus.
settings.register_profile(
    "searching",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# The same examples each time, so that a failure is that of a change. New ones are looked for with
# `pytest --hypothesis-profile=searching`.
settings.register_profile("repeating", settings.get_profile("searching"), derandomize=True)
settings.load_profile("repeating")

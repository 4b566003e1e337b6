"""Settings that hold for all tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code: others may have its cpus.
settings.register_profile(
    "unhurried",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("unhurried")

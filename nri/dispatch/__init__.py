"""The one thread that owns the policy, and the one way out to a runtime."""

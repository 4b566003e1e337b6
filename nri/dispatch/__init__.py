"""Turns at the policy, the events of runtimes as values, and the one way out to a runtime."""

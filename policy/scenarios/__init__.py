"""Scenarios and manifests run against the engine, with a small safe expression language."""

"""Restoration of what an engine held: on a copy, to try something out, and after a fault of ours.

Used by `policy.engine` alone.
"""

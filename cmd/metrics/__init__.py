"""Metrics and health of the daemon, and the pages that serve them.

May import `daemon` and the folders before it.
"""

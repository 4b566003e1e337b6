"""Refusals of a runtime: updates that it does not make, and creations that it undid.

Used by the events of `nri.dispatch` alone.
"""

"""Spare cpus: which may be taken beside narrowed shares, so that all find what they were promised.

Asked by the ledger alone.
"""

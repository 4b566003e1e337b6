"""The ledger of memory: nodes, zones, offers, holdings, and what widens when memory is short.

May import `hints` and the folders before it.
"""

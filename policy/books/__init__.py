"""Books of one machine: the ledger of cpus, the pinnings, and both with memory.

May import `tuning` and the folders before it.
"""

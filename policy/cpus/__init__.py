"""Picking cpus inside a pool: whole free domains first, then the least harm to others.

May import `model` and the folders before it.
"""

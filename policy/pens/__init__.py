"""Pens: sets of cpus that several containers have together, and which containers have one.

May import `placing` and the folders before it.
"""

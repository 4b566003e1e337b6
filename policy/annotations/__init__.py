"""Annotations of pods: their keys, budget, values, and the preferences read from them.

May import `pools` and the folders before it.
"""

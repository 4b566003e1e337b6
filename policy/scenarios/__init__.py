"""Scenarios run against the engine, with a small safe expression language.

May import `engine` and the folders before it.
"""

"""Wishes of single containers for cpus of a certain kind, as requests and rules of placing.

Imports what `placing` may, and of `placing` itself only values.
"""

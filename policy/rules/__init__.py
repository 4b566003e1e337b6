"""Affinity rules between containers: expressions, operators, and the index of matches.

May import `annotations` and the folders before it.
"""

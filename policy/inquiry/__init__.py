"""Answers about a node at one moment, from a snapshot: drift, rules that count, alternatives.

May import `engine` and the folders before it.
"""

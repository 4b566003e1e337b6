"""Judgements: what the rules between containers say about the places of one of them.

Imports what `placing` may, and of `placing` itself only values.
"""

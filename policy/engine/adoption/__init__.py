"""Adoption of containers that run already: their grants, their pens, and all of them together.

May import the rest of `engine` but for the engine itself, and the folders before it.
"""

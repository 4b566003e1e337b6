"""Required and preferred rules between containers, and of containers for pools, at a level.

May import the rest of `rules`, and the folders before it.
"""

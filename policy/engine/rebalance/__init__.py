"""Plans of moves that place running containers better, and how good a placement is.

May import the rest of `engine`, and the folders before it.
"""

"""The embedded runtime: the other end of the wire in this process, with containers on paper.

May import `plugin` and the folders before it.
"""

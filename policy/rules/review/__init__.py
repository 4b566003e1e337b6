"""Reviews of a pod's rules before it runs: what contradicts itself, or counts for nothing.

May import the rest of `rules`, and the folders before it.
"""

"""The sub-commands of `pinfold`, one module each, and what they share.

May import `metrics` and the folders before it.
"""

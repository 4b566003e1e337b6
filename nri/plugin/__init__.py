"""The NRI plugin: the session with a runtime, its messages as values, and answers to it.

May import `hints` and the folders before it.
"""

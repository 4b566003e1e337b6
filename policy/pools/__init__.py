"""The pool tree, which cpus and memory it is built of, and how near two pools are.

May import `configuration` and the folders before it.
"""

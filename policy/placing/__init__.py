"""The way from a container to a grant: classified, pools ranked, cpus and memory planned.

May import `books` and the folders before it.
"""

"""The kernel's settings and what it has in force: knobs, their original values, cgroups.

May import `state` and the folders before it.
"""

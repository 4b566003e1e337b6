"""Machines that are not this one: from one line, as a snapshot.

May import `sysfs` and the folders before it.
"""

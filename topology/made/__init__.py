"""Machines that are not this one: from one line, as a made-up sysfs tree, as a snapshot.

May import `sysfs` and the folders before it.
"""

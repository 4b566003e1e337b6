"""Intel Speed Select by classes of cpus, and the extended resources that come of it.

May import what `tuning` may, and its classes of cpus.
"""

"""Sets of cpus and of memory nodes, each one int bitmask, and the base of all errors.

May import nothing else of the project.
"""

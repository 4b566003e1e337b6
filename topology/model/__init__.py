"""The machine as an immutable value: sockets, NUMA nodes, caches, cores, devices.

May import `sets`.
"""

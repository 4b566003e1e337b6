"""Topology hints: places of devices and volumes on the machine, filtered and scored by pool.

May import `manifests` and the folders before it.
"""

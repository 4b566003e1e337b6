"""Kernel settings that follow from grants: interrupts, clocks, scheduling, classes.

May import `memory` and the folders before it.
"""

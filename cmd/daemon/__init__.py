"""The daemon: its configuration and machine, its runtime, and work that is due in between.

May import `report` and the folders before it.
"""

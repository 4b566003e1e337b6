"""The engine: events in, decisions and snapshots out; reconfiguration, their reasons.

May import `placing` and the folders before it.
"""

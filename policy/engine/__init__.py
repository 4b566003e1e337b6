"""The engine: events in, decisions out; adoption, reconfiguration, and the words for both.

May import `placing` and the folders before it.
"""

"""Decisions as they are made, for clients that follow: the feed, and its documents.

May import what `cmd.control` may.
"""

"""Answers that take long to work out: plans of moves and captures of the machine.

May import what `cmd.control` may.
"""

"""Log lines: one a decision, the connection to the runtime, and the thread that writes them.

The tables and trees of the command line.

May import `kernel` and the folders before it.
"""

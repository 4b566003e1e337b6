"""Log lines: one a decision, the connection to the runtime, and the thread that writes them.

May import `kernel` and the folders before it.
"""

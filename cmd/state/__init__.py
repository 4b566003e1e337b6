"""Files that outlive the daemon: the state of a node's containers, saved and read again.

May import nothing else of `cmd` but `web`.
"""

"""The machine as the kernel shows it: cpu sets, discovery from sysfs, the immutable `Machine`.

Reads files below a root it is given (only `sysfs.py` opens them) and imports no other room.
"""

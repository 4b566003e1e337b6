"""The machine as the kernel shows it: cpu sets, discovery from sysfs, the immutable `Machine`.

Reads files below a root it is given (only `sysfs/sysfs_tree.py` opens them) and imports no other
room. The folders in order, each of which may import those before it: sets, model, sysfs, made,
drawing.
"""

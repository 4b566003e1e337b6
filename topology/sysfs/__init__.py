"""Discovery: the kernel's files below a root, read into a `Machine`.

May import `model` and the folders before it.
"""

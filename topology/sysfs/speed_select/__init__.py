"""Intel Speed Select: the kernel's interface to it, read and written, and its form in JSON.

May import what `sysfs` may, and its reader of JSON.
"""

"""The language of expectations: Python's grammar, values and functions of its own, never `eval`.

Imports the base of all errors and the sets of cpus alone.
"""

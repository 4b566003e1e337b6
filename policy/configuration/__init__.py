"""The operator's configuration: its values, their text, defaults, checks and JSON schema.

May import `cpus` and the folders before it.
"""

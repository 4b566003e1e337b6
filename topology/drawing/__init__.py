"""Pictures of a machine: the text tree, the JSON document, the fingerprint.

May import `made` and the folders before it.
"""

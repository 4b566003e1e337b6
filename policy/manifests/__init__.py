"""Kubernetes manifests: the pods they create, and the faults of their annotations.

May import `rules` and the folders before it.
"""

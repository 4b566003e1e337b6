"""Pods, containers, hints, requests and grants as values; the kubelet's numbers read back.

May import `text`.
"""

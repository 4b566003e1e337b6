"""Sources of topology hints: mounts and devices of this machine, and the kubelet's service.

May import `dispatch` and the folders before it.
"""

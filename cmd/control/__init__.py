"""The control API of a running daemon: its socket, its service, its documents and its client.

May import `metrics` and the folders before it. grpc is loaded with `control_service` and at the
client's first call: a daemon that nobody asks never pays for it.
"""

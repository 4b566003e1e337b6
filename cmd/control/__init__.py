"""The control API of a running daemon: its socket, its service, its documents and its client.

May import `metrics` and the folders before it. grpc is loaded with `control_service` alone: neither
a client nor a daemon that nobody asks pays for it. A client loads h2 instead, once it asks.
"""

"""Bytes to messages and back, without sockets: the connection multiplexer and ttRPC.

Imports nothing of the project.
"""

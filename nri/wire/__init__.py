"""Bytes to messages and back, without sockets: the connection multiplexer and ttRPC.

Imports the generated messages and the base error, nothing else of the project.
"""

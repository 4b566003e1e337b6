"""gRPC as clients speak it, as bytes: its library takes longer to load than an answer.

Sans-IO; imports h2 and the standard library alone. The service is gRPC's own.
"""

"""gRPC as clients speak it, as bytes: the library takes longer to load than an answer.

Sans-IO; imports the standard library alone. The service is gRPC's own.
"""

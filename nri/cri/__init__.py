"""The CRI proxy: a runtime's calls passed on, and the policy's answers put into them.

May import `plugin` and the folders before it. gRPC is imported with its modules, and they only
where the proxy is used.
"""

"""A small HTTP server for a few pages.

May import nothing else of `cmd`. The folders of `cmd` in order, each of which may import those
before it: web, state, kernel, report, daemon, metrics, commands; the two programs are above them.
"""

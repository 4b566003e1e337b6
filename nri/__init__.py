"""The runtime's side: frames, messages, the plugin session, the embedded runtime.

Imports `topology` and `policy`, never `cmd`.
"""

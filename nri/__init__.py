"""The runtime's side: frames, messages, the plugin session, the embedded runtime.

Imports `topology` and `policy`, never `cmd`. The folders in order, each of which may import those
before it: api, wire, dispatch, hints, plugin, embedded.
"""

"""Laws of a simulated node: what must be true after every step, and what was seen of it last.

Imports the simulated runtime and the engine; the run of a scenario imports these.
"""

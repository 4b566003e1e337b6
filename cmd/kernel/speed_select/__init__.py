"""Intel Speed Select's registers as knobs that can be turned and put back.

May import what `kernel` may.
"""

"""Text that people write, as values: YAML with positions, amounts, patterns, and its errors.

May import `topology`.
"""

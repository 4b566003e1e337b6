"""Measurements of the books, as values."""

"""Rules that are not met where containers are: required ones in decisions, others in notes.

May import decisions and the roster, and the folders before `engine`.
"""

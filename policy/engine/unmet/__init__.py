"""Required rules that do not hold where containers are: who is told of them, and who again.

May import the folders before `engine`, and the roster and the decisions in it.
"""

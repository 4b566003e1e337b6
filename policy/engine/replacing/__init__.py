"""Other places for containers that run: who goes together, and where rules hold again.

May import the rest of `engine` but for `rebalance`, and the folders before it.
"""

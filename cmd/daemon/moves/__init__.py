"""Moves of running containers: for rules that stop to hold, their budgets, and refused ones."""

"""Openings: the cpus that rules between containers leave to a newcomer, by its pools.

Where they leave none, residents are narrowed, or the fewest rules break.
"""

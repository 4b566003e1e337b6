"""Decisions as a daemon remembers them, and hands them to who follows."""

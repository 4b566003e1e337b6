"""Scheduling, interrupts and clocks: kernel settings that follow from grants."""

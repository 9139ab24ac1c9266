"""Placement: which device runs which group, and when; pure functions over a costed graph."""

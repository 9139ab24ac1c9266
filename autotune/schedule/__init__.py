"""Schedules of a group and their space."""

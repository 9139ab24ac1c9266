"""Measuring in place: whole runs of a network, in which each group runs by one of its candidates."""

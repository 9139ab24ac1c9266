"""Analytic model of machines with scratchpads: overlap of the units, and features of it."""

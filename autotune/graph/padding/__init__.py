"""Graphs that may run on padded inputs: proof that padding does not reach the results."""

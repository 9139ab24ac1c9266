"""Generators of row runs and reductions."""

"""Generators of vector runs: element-wise instructions over one rectangle in one pass."""

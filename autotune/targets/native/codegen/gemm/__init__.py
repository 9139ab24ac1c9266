"""Generators of fp32 matrix products and of the panels they read."""

"""Targets: machines for tile programs, and the specs that describe them."""

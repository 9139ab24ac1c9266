"""Targets: machines that run tile programs, and the specs that describe them."""

"""Micro-kernels: what every instruction computes or moves, from decoded words."""

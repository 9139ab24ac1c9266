"""Kernel variants (tile emitters) and the micro-kernels that instructions execute; compiled."""

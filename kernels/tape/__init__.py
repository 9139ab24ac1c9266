"""Tapes: element-wise arithmetic over columns, recorded once from numpy code and run again without it."""

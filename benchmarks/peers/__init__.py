"""Readers of other tools' results, for comparisons alone: SCALE-Sim, Timeloop, Accelergy."""

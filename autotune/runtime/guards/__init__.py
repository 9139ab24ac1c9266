"""Variants of a network for classes of inputs, each behind a guard that checks the class of every run."""

"""Fusion: groups, region rules, nests, legality, candidates and partitions of a graph."""

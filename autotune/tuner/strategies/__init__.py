"""Fusion strategies, one per file; ``table`` lists them in the order in which a search asks them."""

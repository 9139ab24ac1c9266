"""Exact partition: groups as columns of a set-partitioning problem, solved with a proof."""

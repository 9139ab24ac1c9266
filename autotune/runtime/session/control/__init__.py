"""Runs trees of graphs: binds shapes, walks branches and loops."""

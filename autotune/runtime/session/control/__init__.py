"""Runs trees of control flow: binds shapes, picks slices, walks branches and loops."""

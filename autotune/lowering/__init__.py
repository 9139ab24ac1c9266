"""Lowering: group and schedule to tile program, by tile-and-fuse."""

"""Tile emitters: kernel variants of each operator family."""

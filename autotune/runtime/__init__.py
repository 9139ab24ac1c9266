"""Runs plans: sessions over program tables, their profile, and learning while they run."""

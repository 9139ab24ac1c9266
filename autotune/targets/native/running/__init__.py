"""Runs linked programs: whole plans as one call, and repeated timing."""

"""Partitioners: each finds a good partition for given prices of groups, predicted or measured."""

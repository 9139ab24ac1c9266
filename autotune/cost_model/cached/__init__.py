"""Analytic model of machines with caches: counted work of a CPU, at unit costs fitted to it."""

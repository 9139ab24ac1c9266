"""How the units of a core overlap: see ``layout.pyx``."""

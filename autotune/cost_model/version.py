"""The version of what the cost model sees: asked by sessions too, which load nothing else of it."""

FEATURE_VERSION = 18
"""Of the tables in ``features.py`` and ``work_kinds.py``, and of how their rows are counted; part of
every stored model: those of another version are refused, and ``make models`` rebuilds the shipped one."""

"""Cycles of counted work at fitted prices: graph, schedule and rates of the spec, and no analytic estimate."""

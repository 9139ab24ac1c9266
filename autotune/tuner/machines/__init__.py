"""Studies of machines: sweeps of a spec, and exploration within a budget of area and power."""

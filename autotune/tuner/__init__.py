"""Search over schedules and fusion with the cost model."""

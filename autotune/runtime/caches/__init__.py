"""What sessions keep on disk between processes: networks, weights, schedules, program tables."""

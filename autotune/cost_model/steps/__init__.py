"""The steps of a nest under all schedules of a table: how often each runs, moves and computes."""

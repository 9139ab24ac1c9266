"""Products with the vector run behind them, in one kernel."""

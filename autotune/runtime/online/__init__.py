"""Learning from runs: recording, drift, retraining, trials and swaps."""

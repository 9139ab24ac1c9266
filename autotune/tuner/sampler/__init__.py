"""A sampler for Optuna that proposes from a cost model; knows nothing of networks and machines."""

"""Cost model: features, the learned hardware performance model, its metrics and predictor."""

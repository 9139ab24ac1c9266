"""Prediction by trees that a cost model has learned."""

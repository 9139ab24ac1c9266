"""Measuring on many machines: Dask's scheduler hands jobs to workers that announce what they can measure."""

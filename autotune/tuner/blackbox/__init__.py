"""Black-box search of a finite list of configurations: nothing is known but names and values of parameters.

The way of the data: space → design → surrogates → proposals → optimiser → replay of a recorded space.
"""

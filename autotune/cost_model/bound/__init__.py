"""Analytic model of bound programs: which generated kernels run, how often, on operands from which cache."""

"""Binds analysed instructions to micro-kernels and to tasks that any thread may take."""

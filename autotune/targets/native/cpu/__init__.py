"""CPUs: instruction sets, the host's topology and hardware counters."""

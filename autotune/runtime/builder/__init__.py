"""Building a plan: a graph of tasks that changes while it runs, under a budget of cores and memory."""

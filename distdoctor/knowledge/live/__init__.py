"""Places of a live job's ranks, and the ranks that they wait for."""

"""A job that runs or hangs now, read without touching it."""

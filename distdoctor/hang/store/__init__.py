"""The store of a live job, read without changing it."""

"""The side of every other process of a check."""

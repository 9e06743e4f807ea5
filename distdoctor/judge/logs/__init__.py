"""Log facts turned into findings."""

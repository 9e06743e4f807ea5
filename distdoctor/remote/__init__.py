"""The same command run on many hosts."""

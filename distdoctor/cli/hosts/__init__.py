"""Commands that run on several hosts."""

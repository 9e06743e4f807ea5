"""Remote runs: commands that run on several hosts."""

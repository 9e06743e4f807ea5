"""Remote runs: one command on many hosts."""
